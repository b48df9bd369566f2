package clientgo

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/verify/rig"
)

const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"one\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"two\n"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pause","Package":"p","Test":"TestB"}
{"Action":"cont","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestCrash"}
{"Action":"output","Package":"p","Output":"exit status 2\n"}
{"Action":"fail","Package":"p"}
`

func TestParse(t *testing.T) {
	res := rig.Must[*result](t)(parse(strings.NewReader(events)))
	res.exited("p", false, "killed\n")
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"passed", res.passed, []string{"TestA/x"}},
		{"failed", res.failed, []string{"TestA", "TestCrash"}},
		{"skipped", res.skipped, []string{"TestB"}},
		{"output", []string{res.output["TestA"], res.output[""]}, []string{"one\ntwo\n", "exit status 2\n"}},
		{"output of the crash", []string{res.output["TestCrash"]}, []string{"killed\n"}},
		{"top level", topLevel([]string{"TestA", "TestA/x"}), []string{"TestA"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: got %q, want %q", c.what, c.got, c.want)
		}
	}
	if _, err := parse(strings.NewReader("FAIL\n")); err == nil {
		t.Error("no error for lines that are not JSON")
	}
}

// A process may fail though no test has, as one that leaks a goroutine does.
func TestExited(t *testing.T) {
	res := &result{passed: []string{"TestA"}, output: map[string]string{}}
	res.exited("p", true, "PASS\n")
	if len(res.failed) > 0 {
		t.Errorf("after success: %q has failed", res.failed)
	}
	res.exited("p", false, "a leak\n")
	if !slices.Equal(res.failed, []string{"p"}) || res.output["p"] != "a leak\n" {
		t.Errorf("after a failure: %q has failed: %q", res.failed, res.output["p"])
	}
}
