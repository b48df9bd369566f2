package upstream

import (
	"slices"
	"strings"
	"testing"
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
	res, err := parse(strings.NewReader(events))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"passed", res.passed, []string{"TestA/x"}},
		{"failed", res.failed, []string{"TestA", "TestCrash"}},
		{"skipped", res.skipped, []string{"TestB"}},
		{"output", []string{res.output["TestA"], res.output[""]}, []string{"one\ntwo\n", "exit status 2\n"}},
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
