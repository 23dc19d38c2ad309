package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/gallery"
	"github.com/metamcp/metamcp/messages"
)

// addFlags are the flags of one command.
type addFlags struct {
	editFlags
	list     bool
	category string

	registry, name, url, kind, cwd, version string
	env, headers, args                      []string
	project, plain, force                   bool

	meant string // how a command is written, where the names look like one; "": they do not
}

func newAdd(c *common) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use: "add NAME…", Short: "Add servers to the configuration",
		Long: `Add servers to the configuration: to the file of --config, else of METAMCP_CONFIG,
else ./.mcp.json where it is there, else ~/.metamcp/mcp.json. Comments and
everything else in the file stay, and what changes is shown. A running host has
the server within two seconds; it starts with its first use.

  metamcp add NAME…                      from the gallery (add --list), or a package by its exact name: of npm,
                                         or with its kind, as in pypi:NAME and oci:IMAGE
  metamcp add --from-registry SERVER     from the MCP registry (metamcp registry search)
  metamcp add NAME -- COMMAND ARG…       any command
  metamcp add NAME --url URL             a remote server

What npm has is pinned to the version that is newest now; --version names another.

Clients start metamcp in folders of their own. So a relative --cwd, and without it a
relative path of a command, is written as an absolute one, but into ./.mcp.json; an
argument like ./work stays as it is, and a note says so.

Secrets do not belong into the file: --env NAME without a value stands for the
variable of that name where metamcp is started, ${NAME}. A value that looks like a
secret is refused without --plain.

Exit status: 0 done, or it was there already; 1 it could not be found or written;
2 wrong usage.`,
		Example: `  metamcp add --list --category database
  metamcp add playwright context7
  metamcp add filesystem --arg ~/work --arg ~/notes
  metamcp add github --env GITHUB_PERSONAL_ACCESS_TOKEN
  metamcp add --from-registry io.github.user/weather
  metamcp add notes --cwd ~/notes -- node server.js --verbose
  metamcp add api --url https://example.com/mcp --header 'Authorization: Bearer ${API_TOKEN}'
  metamcp add --undo`,
		RunE: func(cmd *cobra.Command, given []string) error {
			if f.list || f.category != "" {
				return f.show(cmd, given)
			}
			if f.undo {
				if err := args(f.withoutNames)(cmd, given); err != nil {
					return err
				}
				return f.undoAdd(cmd, c)
			}
			return f.run(cmd, c, given)
		},
	}
	cmd.SetFlagErrorFunc(flagOfCommand)
	f.register(cmd)
	fl := cmd.Flags()
	fl.BoolVar(&f.list, "list", false, "show the gallery; words narrow it")
	fl.StringVar(&f.category, "category", "", "with --list: only this `category`")
	fl.StringVar(&f.registry, "from-registry", "", "the exact name of a `SERVER` in the MCP registry")
	fl.StringVar(&f.name, "name", "", "what the server is called in the configuration")
	fl.StringVar(&f.url, "url", "", "the `URL` of a remote server")
	fl.StringVar(&f.kind, "type", "", "with --url: http, or sse (default: by the URL)")
	fl.StringArrayVar(&f.headers, "header", nil, "with --url: a header, `NAME: VALUE` or NAME=VALUE; may be repeated")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "a variable, `NAME=VALUE`, or NAME for ${NAME}; may be repeated")
	fl.StringArrayVarP(&f.args, "arg", "a", nil, "an argument for a server of the gallery, of npm or, as NAME=VALUE, of the registry; may be repeated")
	fl.StringVar(&f.cwd, "cwd", "", "the `folder` in which it is started")
	fl.StringVar(&f.version, "version", "", "the exact `version` of its package")
	fl.BoolVar(&f.project, "project", false, "write ./.mcp.json, also where it is not there yet")
	fl.BoolVar(&f.plain, "plain", false, "write values that look like secrets")
	fl.BoolVar(&f.force, "force", false, "add a package that does not look like an MCP server, or that imitates another")
	return cmd
}

// addition is a server that is to be added, and what a person should know.
type addition struct {
	Name    string         `json:"name"`
	From    string         `json:"from"` // gallery, npm, registry, command or url
	Kind    string         `json:"kind,omitempty"`
	Package string         `json:"package,omitempty"`
	Version string         `json:"version,omitempty"` // "": none is pinned, or Package names it
	Needs   []additionNeed `json:"needs,omitempty"`
	Notes   []string       `json:"notes,omitempty"`

	server *clients.NewServer
}

// addReport is the answer for scripts.
type addReport struct {
	editReport
	Servers []*addition `json:"servers"`
}

func (f *addFlags) run(cmd *cobra.Command, c *common, given []string) error {
	var list []*addition
	err := interruptible(cmd.Context(), "nothing was written", func(ctx context.Context) (err error) {
		list, err = f.additions(ctx, cmd, c, given)
		return err
	})
	if err != nil {
		return err
	}
	servers := make([]*clients.NewServer, len(list))
	for i, a := range list {
		servers[i] = a.server
		if err := f.refuseSecrets(a.server); err != nil {
			return err
		}
		if err := clients.CheckServerName(a.server.Name); err != nil {
			return usageError{fmt.Errorf("%w; give %s", err, f.otherName(cmd))}
		}
	}
	out := cmd.OutOrStdout()
	var made []*clients.Change
	var of string // the files of this command line, for others
	err = f.edit(cmd, c, "add", func(s *clients.Setup) ([]*clients.Change, error) {
		target, err := f.target(c, s)
		if err != nil {
			return nil, err
		}
		if !s.OfProject(target) {
			for _, a := range list {
				a.Notes = append(a.Notes, a.server.Anchor(s.Cwd)...)
			}
		}
		for _, a := range list {
			if why := missingHere(a.server, target); why != "" {
				a.Notes = append(a.Notes, why)
			}
		}
		ch, err := s.PlanAdd(target, servers)
		var taken *clients.TakenError
		if errors.As(err, &taken) {
			return nil, fmt.Errorf("%w; give %s, or take that one out first: %s", err, f.otherName(cmd), withSources(cmd, "metamcp remove "+messages.ShellWord(taken.Name)))
		}
		if err != nil {
			return nil, err
		}
		made, of = []*clients.Change{ch}, configFlags(s.Config...)
		return made, nil
	}, func(changes []*clients.Change) any {
		return addReport{editReport{Version: buildVersion(), DryRun: f.dryRun, Changes: changes}, list}
	})
	if err != nil || f.raw {
		return err
	}
	for _, a := range list {
		a.print(out)
	}
	if made[0].Written {
		fmt.Fprintf(out, "Try it with: metamcp test %s%s\n", list[0].Name, of)
	}
	return nil
}

// otherName says how this command line gives a server another name: what stands before a
// command or an address is one.
func (f *addFlags) otherName(cmd *cobra.Command) string {
	if f.name == "" && (cmd.ArgsLenAtDash() >= 0 || f.url != "") {
		return "another NAME"
	}
	return "another name with --name"
}

// undoAdd goes back by one change, of ./.mcp.json with --project.
func (f *addFlags) undoAdd(cmd *cobra.Command, c *common) error {
	if !f.project {
		return f.edit(cmd, c, "add", nil, nil)
	}
	return f.edit(cmd, c, "add", func(s *clients.Setup) ([]*clients.Change, error) {
		target, err := f.target(c, s)
		if err != nil {
			return nil, err
		}
		f.in = []string{target}
		return s.UndoLast("add", f.in)
	}, nil)
}

// target is the one file that gets the servers.
func (f *addFlags) target(c *common, s *clients.Setup) (string, error) {
	if f.project {
		if len(s.Config) > 0 {
			return "", usageError{errors.New("--project is ./.mcp.json; leave --config out")}
		}
		return filepath.Join(s.Cwd, ".mcp.json"), nil
	}
	switch files, candidates := config.FilesOf(c.sources()); {
	case len(files) == 1:
		return files[0], nil
	case len(files) > 1:
		return "", usageError{errors.New("several configuration files are named; say with one --config which of them gets the server")}
	case len(candidates) == 0:
		return "", errors.New("no place for a configuration is known; name a file with --config")
	default:
		return candidates[len(candidates)-1], nil
	}
}

// additions are the servers that the command line means.
func (f *addFlags) additions(ctx context.Context, cmd *cobra.Command, c *common, given []string) ([]*addition, error) {
	names, command := given, []string(nil)
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		names, command = given[:dash], given[dash:]
	}
	env, err := pairs("--env", f.env, func(name string) string { return "${" + name + "}" })
	if err != nil {
		return nil, err
	}
	headers, err := headerPairs(f.headers)
	if err != nil {
		return nil, err
	}
	if err := f.check(names, command, cmd.ArgsLenAtDash() >= 0); err != nil {
		return nil, usageError{err}
	}
	own := &clients.NewServer{Name: f.name, Env: env, Headers: headers, Cwd: f.cwd}
	if own.Name == "" {
		own.Name = first(names)
	}
	switch {
	case len(command) > 0:
		own.Command, own.Args = command[0], command[1:]
		return []*addition{{Name: own.Name, From: "command", Needs: unsetNeeds(own), server: own}}, nil
	case f.url != "":
		own.URL = f.url
		if own.Type, err = remoteType(f.url, f.kind); err != nil {
			return nil, usageError{err}
		}
		return []*addition{{Name: own.Name, From: "url", Needs: unsetNeeds(own), server: own}}, nil
	case f.registry != "":
		a, err := f.fromRegistry(ctx, c, env)
		return []*addition{a}, err
	}
	if at, certain := commandAt(names); (at > 0 || certain) && !f.force {
		f.meant = behindDash(names, at)
		if certain {
			return nil, usageError{fmt.Errorf("%s is no name of a server, but a program; %s", names[at], f.meant)}
		}
	}
	var list []*addition
	for _, name := range names {
		a, err := f.byName(ctx, c, name, env)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// check refuses flags that do not go together.
func (f *addFlags) check(names, command []string, dash bool) error {
	ways := 0
	for _, given := range []bool{dash, f.url != "", f.registry != ""} {
		if given {
			ways++
		}
	}
	single := f.name != "" || f.cwd != "" || f.version != "" || len(f.env)+len(f.args) > 0
	switch {
	case ways > 1:
		return errors.New("give one of -- COMMAND, --url and --from-registry")
	case dash && len(command) == 0:
		return errors.New("there is no command behind --")
	case (dash || f.url != "") && len(names) > 1:
		return fmt.Errorf("one name for one server: %s", strings.Join(names, ", "))
	case (dash || f.url != "") && len(names) == 0 && f.name == "":
		return errors.New("the server needs a name, before --url or --")
	case f.registry != "" && len(names) > 0:
		return errors.New("--from-registry adds one server; what it is called is said with --name")
	case ways == 0 && len(names) == 0:
		return errors.New("add needs the name of a server; add --list shows the gallery")
	case ways == 0 && len(names) > 1 && single:
		return errors.New("--name, --cwd, --env, --arg and --version are for one server; add them one by one")
	case f.url == "" && (f.kind != "" || len(f.headers) > 0):
		return errors.New("--type and --header are for --url")
	case f.url != "" && (f.cwd != "" || len(f.env) > 0):
		return errors.New("--cwd and --env are for local servers")
	case (dash || f.url != "") && (f.version != "" || len(f.args) > 0):
		return errors.New("--version and --arg are for packages")
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.()-]*$`)

// pairs reads NAME=VALUE; alone is the value of a NAME without one, nil: it
// needs one. No value is ever in the error.
func pairs(flag string, words []string, alone func(name string) string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for i, w := range words {
		name, value, ok := strings.Cut(w, "=")
		switch {
		case !ok && alone == nil, !variableName.MatchString(name):
			return nil, usageError{fmt.Errorf("%s number %d is no NAME=VALUE", flag, i+1)}
		case !ok:
			value = alone(name)
		}
		out[name] = value
	}
	return out, nil
}

// headerPairs reads headers as NAME: VALUE, which curl takes too, or NAME=VALUE.
func headerPairs(words []string) (map[string]string, error) {
	equal := make([]string, len(words))
	for i, w := range words {
		equal[i] = w
		if at := strings.IndexAny(w, ":="); at >= 0 && w[at] == ':' {
			equal[i] = strings.TrimSpace(w[:at]) + "=" + strings.TrimSpace(w[at+1:])
		}
	}
	out, err := pairs("--header", equal, nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("%w; write it as 'Authorization: Bearer ${TOKEN}'", err)}
	}
	return out, nil
}

// remoteType is how a remote server is spoken to.
func remoteType(address, kind string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("--url is no absolute http or https URL")
	}
	switch kind {
	case "":
		if strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
			return "sse", nil
		}
		return "http", nil
	case "http", "streamable-http":
		return "http", nil
	case "sse":
		return "sse", nil
	}
	return "", fmt.Errorf("--type %q: use http or sse", kind)
}

var reference = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_.()-]*)\}`)

// print says what a person has to know of a server.
func (a *addition) print(out io.Writer) {
	for _, required := range []bool{true, false} {
		title := "needs"
		if !required {
			title = "also reads"
		}
		for _, n := range a.Needs {
			if n.Required != required || n.Set {
				continue
			}
			about := printable(n.Description)
			if n.Secret {
				about = strings.TrimSpace(about + " (secret)")
			}
			if required {
				about = strings.TrimSpace(about + "; not set here: set it where metamcp is started, or the server does not start")
				about = strings.TrimPrefix(about, "; ")
			}
			fmt.Fprintf(out, "%s %s %s: %s\n", printable(a.Name), title, printable(n.Name), about)
		}
	}
	for _, n := range a.Notes {
		fmt.Fprintf(out, "note: %s: %s\n", printable(a.Name), printable(n))
	}
}

// show prints the gallery.
func (f *addFlags) show(cmd *cobra.Command, words []string) error {
	list := gallery.All()
	if f.category != "" {
		if list = gallery.In(f.category); len(list) == 0 {
			return usageError{fmt.Errorf("there is no category %q; there are: %s", f.category, strings.Join(gallery.Categories(), ", "))}
		}
	}
	list = slices.DeleteFunc(list, func(e gallery.Entry) bool {
		text := strings.ToLower(strings.Join(append([]string{e.Name, e.Package, e.Description}, e.Categories...), " "))
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
	})
	if f.raw {
		return printJSON(cmd.OutOrStdout(), list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "The gallery has none like that; metamcp registry search looks in the MCP registry.")
		return err
	}
	t := table{width: terminalWidth(cmd.OutOrStdout())}
	t.row("NAME", "FROM", "CATEGORIES", "ABOUT")
	for i := range list {
		e := &list[i]
		t.row(e.Name, string(e.Kind), strings.Join(e.Categories, ","), e.Description)
	}
	return t.print(cmd.OutOrStdout())
}
