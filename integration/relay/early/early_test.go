package early

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	home, cwd := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Chdir(cwd)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(home, ".metamcp")
	a, b := filepath.Join(cwd, "a.json"), filepath.Join(home, "b.json")
	for _, f := range []string{a, b, filepath.Join(own, "mcp.json")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := string(os.PathListSeparator)
	for _, c := range []struct {
		args, env []string
		want      *plan // nil: not for this package
	}{
		{[]string{}, nil, &plan{[]string{filepath.Join(own, "mcp.json")}, own}},
		{[]string{"serve", "--config", "a.json", "-c", "~/b.json"}, nil, &plan{[]string{a, b}, own}},
		{[]string{"--config=a.json", "--state-dir=s", "--attach=require", "--log-level", "error", "--log-format=json"}, nil, &plan{[]string{a}, filepath.Join(cwd, "s")}},
		{nil, []string{"METAMCP_CONFIG=a.json" + list + b, "METAMCP_STATE_DIR=~/s", "METAMCP_ATTACH=auto", "METAMCP_TEST_MARK=x", "OTHER=y"}, &plan{[]string{a, b}, filepath.Join(home, "s")}},
		{[]string{"--attach", "never"}, nil, nil},
		{nil, []string{"METAMCP_ATTACH=never"}, nil},
		{nil, []string{"METAMCP_POOL_POOL_SIZE=3"}, nil},
		{nil, []string{"METAMCP_CHAIN={}"}, nil}, // whether it may start at all is for the program to say
		{[]string{"--pool-size=3"}, nil, nil},
		{[]string{"--name=x"}, nil, nil},
		{[]string{"--log-level=debug"}, nil, nil},
		{[]string{"call", "s", "t"}, nil, nil},
		{[]string{"--config"}, nil, nil},
		{[]string{"--config="}, nil, nil},
		{[]string{"--config", "a.json", "serve"}, nil, nil},
		{[]string{"--config", cwd}, nil, nil}, // no regular file
		{[]string{"--config", "~other/a.json"}, nil, nil},
	} {
		got, ok := parse(append([]string{"/usr/bin/metamcp"}, c.args...), c.env)
		if !ok {
			got = nil
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q with %q is %+v, want %+v", c.args, c.env, got, c.want)
		}
	}
	for _, name := range []string{"metamcp.test", "metamcp-watchdog", "x/relay.test.exe"} {
		if _, ok := parse([]string{name}, nil); ok {
			t.Errorf("%s is taken for metamcp", name)
		}
	}
}
