package signal

import (
	"testing"

	"github.com/go-lw/lw/internal/verify/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
