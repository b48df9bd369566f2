package serve_test

import (
	"flag"
	"testing"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/leak"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	// The parallel tests of this package wait most of the time: for clients that are waited for, for
	// the ends of Handlers, and for the two rounds in which a relay asks its server. So more of them
	// run at once than there are processors. A -parallel of the command line replaces this.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	leak.Main(m)
}
