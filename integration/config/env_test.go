package config

import (
	"strings"
	"testing"
)

func TestChildEnvironment(t *testing.T) {
	host := []string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "XDG_CACHE_HOME=/c", "AWS_KEY=k", "AWS_ID=i", "SECRET=s", "HTTPS_PROXY=p", "no_proxy=n",
		"LANG=()  { :; }", "=x", "broken", "PATH=/second", "NODE_EXTRA_CA_CERTS=/ca",
	}
	safe := "HOME=/h HTTPS_PROXY=p LC_ALL=C NODE_EXTRA_CA_CERTS=/ca PATH=/bin XDG_CACHE_HOME=/c no_proxy=n"
	tests := []struct {
		name string
		own  []pair
		more inherit
		want string
	}{
		{"safe", nil, inherit{}, safe},
		{"own", []pair{{key: "Z", value: "1"}, {key: "PATH", value: "/mine"}, {key: "A", value: "2"}, {key: "A", value: "3"}}, inherit{}, "A=3 HOME=/h HTTPS_PROXY=p LC_ALL=C NODE_EXTRA_CA_CERTS=/ca PATH=/mine XDG_CACHE_HOME=/c Z=1 no_proxy=n"},
		{"names", nil, inherit{names: []string{"AWS_*", "PATH", "NONE"}}, "AWS_ID=i AWS_KEY=k " + safe},
		{"own over names", []pair{{key: "AWS_ID", value: "mine"}}, inherit{names: []string{"AWS_I?"}}, "AWS_ID=mine " + safe},
		{"all", nil, inherit{all: true}, "AWS_ID=i AWS_KEY=k HOME=/h HTTPS_PROXY=p LANG=()  { :; } LC_ALL=C NODE_EXTRA_CA_CERTS=/ca PATH=/bin SECRET=s XDG_CACHE_HOME=/c no_proxy=n"},
		{"case", nil, inherit{names: []string{"secret"}}, safe},
	}
	e := newEnvironment("linux", host)
	for _, tt := range tests {
		if got := strings.Join(e.child(e.unique(tt.own), tt.more), " "); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

func TestChildEnvironmentOnWindows(t *testing.T) {
	e := newEnvironment("windows", []string{"=C:=C:\\", "Path=c", "SystemRoot=s", "ComSpec=k", "ProgramFiles(x86)=p", "Secret=x", "appdata=a", "lc_all=C"})
	if got, want := strings.Join(e.child(e.unique([]pair{{key: "PATH", value: "mine"}}), inherit{names: []string{"SEC*"}}), " "),
		"appdata=a ComSpec=k lc_all=C PATH=mine ProgramFiles(x86)=p Secret=x SystemRoot=s"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if v, ok := e.lookup("SYSTEMROOT"); v != "s" || !ok {
		t.Errorf("SYSTEMROOT is %q, %v", v, ok)
	}
}
