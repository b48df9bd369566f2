package pack_test

import (
	"testing"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/leak"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	leak.Main(m)
}
