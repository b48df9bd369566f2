package lwtest_test

import (
	"flag"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Sources that hang would be shrunk for long, and what fails here fails as it should.
	flag.Set("rapid.nofailfile", "true")
	if f := flag.Lookup("rapid.shrinktime"); f.Value.String() == f.DefValue {
		f.Value.Set("300ms")
	}
	// One of many runs finds what is broken, so each draws anew, also where RAPID_SEED is set.
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue {
		f.Value.Set("0")
	}
	m.Run()
}
