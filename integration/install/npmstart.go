package install

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// start finds the program of the installed package.
func (w *npmWay) start(dir, final string) (*started, error) {
	root := filepath.Join(dir, "node_modules", filepath.FromSlash(w.name))
	text, err := readBounded(filepath.Join(root, "package.json"), 4<<20)
	if err != nil {
		return nil, fail(NoProgram, "", "the package %s has no package.json: %v", w.name, err)
	}
	var manifest struct {
		Bin json.RawMessage `json:"bin"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fail(NoProgram, "", "the package.json of %s cannot be read: %v", w.name, err)
	}
	program, err := chooseBin(w.name, manifest.Bin)
	if err != nil {
		return nil, err
	}
	file, err := inside(root, program)
	if err != nil {
		return nil, fail(NoProgram, "", "the program of %s is %q: %v", w.name, program, err)
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return nil, err
	}
	there := literal(filepath.Join(final, rel))
	options, byNode, err := shebang(file)
	if err != nil {
		return nil, onDisk("reading "+file, err)
	}
	if !byNode {
		return &started{entry: Entry{Command: there}}, nil
	}
	return &started{entry: Entry{Command: "node", Args: append(options, there)}}, nil
}

// chooseBin picks the program of a package: the only one, or that of the
// package's own name.
func chooseBin(name string, raw json.RawMessage) (string, error) {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return one, nil
	}
	var several map[string]string
	if len(raw) > 0 && string(raw) != "null" && json.Unmarshal(raw, &several) != nil {
		return "", fail(NoProgram, "", "the \"bin\" of %s in its package.json is neither a string nor an object of strings", name)
	}
	maps.DeleteFunc(several, func(_, file string) bool { return file == "" })
	own := name[strings.LastIndexByte(name, '/')+1:]
	switch {
	case len(several) == 0:
		return "", fail(NoProgram, "It may be a library; look at its documentation for how the server is started.",
			"the package %s has no program (no \"bin\" in its package.json), so there is nothing to start", name)
	case several[own] != "":
		return several[own], nil
	}
	files := slices.Sorted(maps.Values(several))
	if files = slices.Compact(files); len(files) == 1 {
		return files[0], nil
	}
	return "", fail(NoProgram, "Configure the one that is the server by hand: npx -y --package "+name+" PROGRAM.",
		"the package %s has several programs and none of its own name: %s", name, strings.Join(slices.Sorted(maps.Keys(several)), ", "))
}

// inside returns the file that a path within a folder means; links must not
// lead out of it.
func inside(root, name string) (string, error) {
	rel := filepath.FromSlash(path.Clean(strings.ReplaceAll(name, `\`, "/")))
	if !filepath.IsLocal(rel) {
		return "", errors.New("it lies outside of the package")
	}
	file := filepath.Join(root, rel)
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", errors.New("there is no such file")
	}
	realRoot, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	within, err := filepath.Rel(realRoot, target)
	if err != nil || !filepath.IsLocal(within) {
		return "", errors.New("it is a link that leads out of the package")
	}
	if info, err := os.Stat(target); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("it is no file")
	}
	return file, nil
}

// shebang says whether a program is started by Node.js, and with which options.
func shebang(file string) (options []string, byNode bool, err error) {
	switch filepath.Ext(file) {
	case ".js", ".mjs", ".cjs":
		byNode = true
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	const longest = 256
	first, err := bufio.NewReader(io.LimitReader(f, longest)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	line, ok := strings.CutPrefix(first, "#!")
	if !ok {
		return nil, byNode, nil
	}
	words := strings.Fields(line)
	for i, word := range words {
		if base := path.Base(word); base == "node" || base == "nodejs" {
			for _, option := range words[i+1:] {
				options = append(options, literal(option))
			}
			return options, true, nil
		}
	}
	return nil, false, nil
}
