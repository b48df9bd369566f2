package manager

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/wire"
)

func TestMain(m *testing.M) {
	wire.Child()
	os.Exit(m.Run())
}

// Every line is measured, and lw's cache allocates less for an event, which no load of the machine
// changes.
func TestCases(t *testing.T) {
	for _, c := range Cases(100) {
		for _, r := range c.Run(compare.Config{Rounds: 1, Short: true, Log: io.Discard}) {
			if r.Base <= 0 || r.Side <= 0 {
				t.Errorf("%s: %v and %v", r.What, r.Base, r.Side)
			}
			if strings.HasSuffix(r.What, "event: allocations") && r.Side > r.Base/2 {
				t.Errorf("%s: %v of controller-runtime, %v of lw", r.What, r.Base, r.Side)
			}
		}
	}
}

// A measurement of another encoding than the one that was asked for fails.
func TestAnotherEncoding(t *testing.T) {
	c := wire.Follow(compare.Case{Name: "YAML"}, "application/yaml", 100, set, onLW)
	sides, done := c.Setup(compare.Config{Short: true})
	defer done()
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "is answered in application/json, not in application/yaml") {
			t.Errorf("panic %q", got)
		}
	}()
	sides[0].Measure()
}
