package main

import "testing"

func TestVerdict(t *testing.T) {
	const events = `{"Action":"run","Test":"A"}
{"Action":"pass","Test":"A/b"}
{"Action":"pass","Test":"A"}
{"Action":"fail","Test":"C"}
no JSON
{"Action":"fail","Package":"p"}
`
	if got, want := verdict([]byte(events)), "2 passed, failed: C, p"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := verdict(nil); got != "0 passed" {
		t.Error(got)
	}
}
