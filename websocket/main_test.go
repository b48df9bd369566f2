package websocket

import (
	"sync/atomic"
	"testing"

	"github.com/go-lw/lw/internal/leak"
	"github.com/go-lw/lw/internal/proof"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The proofs of package lw (internal/proof/README.md) over WebSockets: the server behind Handler, the
// informer's client from Client, and between both a network that cuts connections anywhere.

func TestProof(t *testing.T) { prove(t, proof.Random, manners{}) }

// Messages come in pieces: each Read gets some bytes only, and each message is divided into frames.
func TestProofInPieces(t *testing.T) { prove(t, proof.Random, manners{chunk: 7, split: true}) }

// A proxy cuts each long response, wherever that is.
func TestProofCut(t *testing.T) {
	if cut := prove(t, proof.Random, manners{limit: 1500}); cut == 0 {
		t.Error("no WebSocket was cut")
	}
}

func TestSmallScope(t *testing.T) { prove(t, proof.SmallScope, manners{}) }

// prove runs histories over networks with these manners, and returns how many WebSockets were cut.
func prove(t *testing.T, run func(*testing.T, func() proof.Transport), m manners) (cuts int64) {
	var upgraded, cut atomic.Int64
	run(t, func() proof.Transport {
		return (&network{manners: m, upgraded: &upgraded, cutOff: &cut}).transport()
	})
	t.Logf("%d WebSockets, of which %d were cut", upgraded.Load(), cut.Load())
	if upgraded.Load() == 0 {
		t.Error("no watch went over a WebSocket")
	}
	return cut.Load()
}
