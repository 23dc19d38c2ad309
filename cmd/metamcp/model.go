package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/index/embed/models"
	"github.com/metamcp/metamcp/integration/config"
)

func newModel(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "model", Short: "Install, list and remove models of the local embedder", Args: args(noArgs),
		Example: `  metamcp model list
  metamcp model install all-minilm-l6-v2`,
		Long: `The local embedder (--embedder local) runs a small BERT model in the GGUF format
on this machine, in a process of its own. Besides a model it needs the program
metamcp-embed beside metamcp, and llama.cpp as a library.

Models are kept in stateDir/models.`,
	}
	cmd.AddCommand(newModelInstall(c), newModelList(c), newModelRemove(c))
	return cmd
}

// modelFolder is where models are kept.
func (c *common) modelFolder() (*models.Folder, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, err
	}
	return models.In(filepath.Join(cfg.Settings.StateDir, "models")), nil
}

func newModelInstall(c *common) *cobra.Command {
	var r models.Request
	var megabytes int64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "install NAME|URL",
		Short: "Download a model and check it",
		Long: `Download a known model by its name (metamcp model list --known), or any GGUF file
by its URL: https, or http on this machine. An interrupted download goes on
where it was. The file is used only after its SHA-256 was found right: that of
the catalogue, that of --sha256, or, with --trust-on-first-use, whatever comes
the first time, which is then insisted on.`,
		Example: `  metamcp model install all-minilm-l6-v2
  metamcp model install https://host/model.gguf --sha256 0123…`,
		Args: args(oneArg),
		RunE: func(cmd *cobra.Command, given []string) error {
			r.Source, r.MaxBytes = given[0], megabytes<<20
			f, err := c.modelFolder()
			if err != nil {
				return err
			}
			return interruptible(cmd.Context(), "what was downloaded is kept; the same command goes on from there", func(ctx context.Context) error {
				bar := newDownloadBar(cmd.ErrOrStderr())
				r.Progress = bar.step
				m, already, err := f.Install(ctx, r)
				bar.end()
				if err != nil {
					return err
				}
				return printInstalled(cmd.OutOrStdout(), f, &m, already, asJSON)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.SHA256, "sha256", "", "the checksum that the file must have, in `hex`")
	flags.BoolVar(&r.TrustFirstUse, "trust-on-first-use", false, "believe what the URL serves now where no checksum is known")
	flags.StringVar(&r.Name, "name", "", "how to call the model (default: as the catalogue or the URL does)")
	flags.Int64Var(&megabytes, "max-size", models.DefaultMaxBytes>>20, "refuse a file of more `megabytes`")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printInstalled(out io.Writer, f *models.Folder, m *models.Installed, already, asJSON bool) error {
	if asJSON {
		return printJSON(out, struct {
			*models.Installed
			Path    string `json:"path"`
			Already bool   `json:"already"`
		}{m, f.Path(m.Name), already})
	}
	if already {
		_, err := fmt.Fprintf(out, "%s is installed already\n", m.Name)
		return err
	}
	fmt.Fprintf(out, "installed %s (%s) as %s\nSHA-256 %s", m.Name, megabytes(m.Size), f.Path(m.Name), m.SHA256)
	switch m.Trust {
	case models.TrustFirstUse:
		fmt.Fprint(out, ", believed because it came first; compare it with what the publisher states")
	case models.TrustGiven:
		fmt.Fprint(out, ", as given")
	case models.TrustCatalogue:
		fmt.Fprint(out, ", as it should be")
	}
	if m.Architecture != "" && m.Architecture != "bert" {
		fmt.Fprintf(out, "\nnote: its architecture is %s; the local embedder was made for bert", m.Architecture)
	}
	_, err := fmt.Fprintln(out)
	return err
}

func newModelList(c *common) *cobra.Command {
	var asJSON, catalogue bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the installed models", Args: args(noArgs),
		Example: `  metamcp model list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if catalogue {
				return printKnown(cmd.OutOrStdout(), asJSON)
			}
			f, err := c.modelFolder()
			if err != nil {
				return err
			}
			list, err := f.List()
			if err != nil {
				return err
			}
			return printModels(cmd.OutOrStdout(), list, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&catalogue, "known", false, "list the models that can be installed by name")
	return cmd
}

func printModels(out io.Writer, list []models.Installed, asJSON bool) error {
	if asJSON {
		return printJSON(out, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "no models; see metamcp model list --known")
		return err
	}
	t := table{width: terminalWidth(out)}
	t.row("NAME", "SIZE", "NUMBERS", "CHECKSUM", "FROM")
	for _, m := range list {
		size := megabytes(m.Size)
		if m.Missing {
			size = "missing"
		}
		t.row(m.Name, size, strconv.Itoa(m.Dimension), string(m.Trust), m.URL)
	}
	return t.print(out)
}

func printKnown(out io.Writer, asJSON bool) error {
	list := models.Catalogue()
	if asJSON {
		return printJSON(out, list)
	}
	t := table{width: terminalWidth(out)}
	t.row("NAME", "SIZE", "LICENSE", "ABOUT")
	for _, k := range list {
		t.row(k.Name, megabytes(k.Size), k.License, k.About)
	}
	return t.print(out)
}

func newModelRemove(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Delete a model", Args: args(oneArg),
		Example: `  metamcp model remove all-minilm-l6-v2`,
		RunE: func(cmd *cobra.Command, given []string) error {
			f, err := c.modelFolder()
			if err != nil {
				return err
			}
			return interruptible(cmd.Context(), "run it again", func(ctx context.Context) error {
				m, err := f.Remove(ctx, given[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(cmd.OutOrStdout(), "removed", m.Name)
				return err
			})
		},
	}
}

// interruptible runs do until it is done or a signal comes.
func interruptible(parent context.Context, next string, do func(context.Context) error) error {
	ctx, stop := untilInterrupted(parent)
	defer stop()
	err := do(ctx)
	if errors.Is(err, context.Canceled) && parent.Err() == nil {
		fmt.Fprintln(os.Stderr, "metamcp: interrupted;", next)
		return statusError(exitInterrupted)
	}
	return err
}

// printJSON prints what a command answers scripts. Text of others in it does not steer
// a terminal.
func printJSON(out io.Writer, value any) error {
	enc := json.NewEncoder(shown(out))
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

func megabytes(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB" }

// A downloadBar shows how a download gets on: as a bar that is drawn again and
// again on a terminal, as a line now and then elsewhere.
type downloadBar struct {
	out   io.Writer
	width int // 0: no terminal
	every time.Duration
	now   func() time.Time
	drawn bool
	last  time.Time
	began time.Time
	first int64 // bytes that were there when it began
}

func newDownloadBar(out io.Writer) *downloadBar {
	b := &downloadBar{out: out, width: terminalWidth(out), every: 10 * time.Second, now: time.Now}
	if b.width > 0 {
		b.every = 0
	}
	return b
}

func (b *downloadBar) step(p models.Progress) {
	if p.Note != "" {
		b.end()
		fmt.Fprintln(b.out, p.Note)
		b.began = time.Time{} // the speed of another connection
		return
	}
	now := b.now()
	if b.began.IsZero() {
		b.began, b.first = now, p.Done
	}
	complete := p.Total > 0 && p.Done == p.Total
	if now.Sub(b.last) < b.every && !complete {
		return
	}
	b.last = now
	text := b.text(p, now)
	if b.width == 0 {
		fmt.Fprintln(b.out, text)
		return
	}
	if room := b.width - len(text) - len("[] ") - 1; p.Total > 0 && room > 0 {
		filled := int(int64(room) * p.Done / p.Total)
		text = "[" + strings.Repeat("=", filled) + strings.Repeat(" ", room-filled) + "] " + text
	}
	fmt.Fprint(b.out, "\r"+text+"\x1b[K")
	b.drawn = true
}

func (b *downloadBar) text(p models.Progress, now time.Time) string {
	text := megabytes(p.Done)
	if p.Total > 0 {
		text = fmt.Sprintf("%3d %% of %s", 100*p.Done/p.Total, megabytes(p.Total))
	}
	spent := now.Sub(b.began).Seconds()
	if fetched := p.Done - b.first; spent > 1 && fetched > 0 {
		speed := float64(fetched) / spent
		text += fmt.Sprintf(", %s/s", megabytes(int64(speed)))
		if left := float64(p.Total-p.Done) / speed; p.Total > 0 && left >= 1 {
			text += fmt.Sprintf(", %v left", time.Duration(left)*time.Second)
		}
	}
	return text
}

// end leaves the cursor on a line of its own.
func (b *downloadBar) end() {
	if b.drawn {
		fmt.Fprintln(b.out)
		b.drawn = false
	}
}
