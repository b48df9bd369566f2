package proof

import (
	"flag"
	"testing"

	"github.com/go-lw/lw/internal/verify/leak"
)

// checks is how many random histories each test runs, unless -rapid.checks says otherwise. The
// tests are for whoever changes the library; .ci/run and .ci/nightly look for what is rare.
const checks = "40"

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if !asked {
		flag.Set("rapid.checks", checks)
	}
	leak.Main(m)
}
