package wire

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/go-lw/lw/bench/internal/compare"
)

func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// Every line is measured, and lw allocates less, which no load of the machine changes.
func TestCases(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 20 processes")
	}
	for _, c := range []compare.Case{
		secureProtobuf(100), streamWidgets(100), streamPlaces(100),
		relist(100, streamed, JSON), relist(100, listed, JSON), relist(100, streamed, Protobuf),
	} {
		for _, r := range c.Run(compare.Config{Rounds: 1, Short: true, Log: io.Discard}) {
			if r.Unit == compare.Nanoseconds && (r.Base <= 0 || r.Side <= 0) {
				t.Errorf("%s: %v and %v", r.What, r.Base, r.Side)
			}
			if strings.Contains(r.What, "allocations") && r.Side > r.Base/2 {
				t.Errorf("%s: %v of client-go, %v of lw", r.What, r.Base, r.Side)
			}
		}
	}
}
