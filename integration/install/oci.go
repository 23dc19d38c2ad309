package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
)

// imageWay runs an image by Docker, by its digest.
type imageWay struct{ image string } // name@digest

var digestPattern = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// resolveImage asks Docker for the digest of an image.
func (p *Plan) resolveImage(ctx context.Context, pkg *registry.Package, own bool) error {
	name, tag, digest := splitImage(pkg.Identifier)
	switch {
	case !own:
		tag, digest = "latest", "" // whatever is newest
	case digest == "" && pkg.Version != "" && tag == "":
		tag = pkg.Version
	case digest == "" && tag == "":
		tag = "latest"
	}
	p.Source.Version = tag
	shown := name
	switch {
	case digest != "":
		shown += "@" + digest
	default:
		shown += ":" + tag
	}
	if err := p.engine(ctx); err != nil {
		p.cannot(NoTool, err.Error())
	} else if digest == "" {
		p.opts.Progress("asking for the digest of " + shown)
		out, err := p.run(ctx, &command{tool: "docker", limit: p.opts.QueryTimeout, args: []string{"buildx", "imagetools", "inspect", shown, "--format", "{{.Manifest.Digest}}"}})
		if err != nil {
			return err
		}
		digest = strings.TrimSpace(string(out.Stdout))
	}
	if digest != "" {
		if !digestPattern().MatchString(digest) {
			return fail(NotFound, "", "the digest of the image %s is not known: %q", shown, shorten(digest))
		}
		shown = name + "@" + digest
	}
	p.Source.Integrity = digest
	p.way = &imageWay{shown}
	p.Commands = [][]string{{"docker", "pull", shown}}
	p.Entry = imageEntry(shown, &p.inputs, p.inputs.draftArgs, p.inputs.draftEnv)
	p.Start = append([]string{p.Entry.Command}, p.Entry.Args...)
	return nil
}

// engine says why there is no Docker to run an image.
func (p *Plan) engine(ctx context.Context) error {
	_, err := p.run(ctx, &command{tool: "docker", limit: p.opts.QueryTimeout, args: []string{"version", "--format", "{{.Server.Version}}"}})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var e *Error
	if errors.As(err, &e) {
		return fmt.Errorf("it is an image, and there is no Docker that could run it: %s; %s", e.Message, toolHint["docker"])
	}
	return err
}

// splitImage takes an image's name apart.
func splitImage(id string) (name, tag, digest string) {
	name, digest, _ = strings.Cut(id, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	return name, tag, digest
}

func imageEntry(image string, in *inputs, args []string, env map[string]string) Entry {
	words := []string{"run", "-i", "--rm"}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		words = append(words, "-e", name) // with the value that docker itself was given
	}
	for _, word := range in.runtime {
		if word != "run" && word != "-i" && word != "--rm" {
			words = append(words, word)
		}
	}
	return Entry{Command: "docker", Args: append(append(words, image), args...), Env: orNil(env)}
}

func (w *imageWay) install(ctx context.Context, p *Plan, _ *provisioned.Claim) (*started, error) {
	if _, err := p.run(ctx, &command{tool: "docker", limit: p.opts.Timeout, args: []string{"pull", "--quiet", w.image}}); err != nil {
		return nil, err
	}
	return &started{entry: imageEntry(w.image, &p.inputs, p.inputs.args, p.inputs.env), complete: true}, nil
}
