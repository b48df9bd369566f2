package http_test

import (
	"testing"

	"github.com/go-lw/lw/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
