package early

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFlags(t *testing.T) {
	f := Parse([]string{"--a=1", "-b", "2", "--a=3", "--c", "--d=", "x"})
	want := map[string][]string{"a": {"1", "3"}, "b": {"2"}, "c": {""}, "d": {""}}
	if diff := cmp.Diff(want, f.values); diff != "" || f.Help || f.Last("a") != "3" || f.Last("e") != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b", "d"}, f.Beside([]string{"a", "c"})); diff != "" {
		t.Error(diff)
	}
}

func TestEtcd(t *testing.T) {
	for at, want := range map[string]string{
		"http://0.0.0.0:0":     "etcd: --listen-client-urls: \"0.0.0.0\" is no loopback address",
		"http://example.com:0": "etcd: --listen-client-urls: \"example.com\" is no loopback address",
		"http://[::1":          "etcd: --listen-client-urls: parse",
	} {
		if err := etcd(t.Context(), []string{"--listen-client-urls=" + at}, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", at, err)
		}
	}
	var out strings.Builder
	if err := etcd(t.Context(), []string{"--help"}, &out); err != nil || !strings.Contains(out.String(), "\n  --unsafe-no-fsync\n") {
		t.Errorf("%v %q", err, out.String())
	}
}
