package proof

import (
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// TestProof runs against a server whose answers are function calls.
func TestProof(t *testing.T) { prove(t, func() partServer { return newDirect() }) }

// TestProofHTTP runs against a server behind HTTP.
func TestProofHTTP(t *testing.T) { Random(t, plain) }

// TestProofCBOR runs against a server behind HTTP that writes CBOR.
func TestProofCBOR(t *testing.T) { Random(t, cbor) }

// TestProofStandard and TestProofStandardCBOR are the same with objects of apimachinery's decoders.
func TestProofStandard(t *testing.T) {
	Random(t, func() Transport { return Transport{Standard: true} })
}
func TestProofStandardCBOR(t *testing.T) {
	Random(t, func() Transport { return Transport{Standard: true, Accept: cbor().Accept} })
}

// TestProofPacked and TestProofPackedCBOR are those with packed objects, each of which is decoded again
// for the informer.
func TestProofPacked(t *testing.T) {
	Random(t, func() Transport { return Transport{Packs: true} })
}
func TestProofPackedCBOR(t *testing.T) {
	Random(t, func() Transport { return Transport{Packs: true, Accept: cbor().Accept} })
}

// TestProofRelay runs behind a relay, TestProofRelays behind two in a row that keep little.
func TestProofRelay(t *testing.T)  { Random(t, relayed) }
func TestProofRelays(t *testing.T) { Random(t, relayedTwice) }

// TestProofRoaming runs an informer that sends each request to another of a server, a relay of it
// and a relay of that one.
func TestProofRoaming(t *testing.T) { Random(t, roaming) }

func plain() Transport { return Transport{} }

func relayed() Transport { return Transport{Relays: 1} }

// relayedTwice has relays whose history is so short that watches fall out of it.
func relayedTwice() Transport { return Transport{Relays: 2, History: serve.HistoryLimits{Events: 4}} }

func roaming() Transport { return Transport{Relays: 2, Roams: true} }

// cbor asks for CBOR, and lets the server choose JSON if it has no CBOR.
func cbor() Transport { return Transport{Accept: "application/cbor,application/json"} }

// TestSmallScope runs every history of up to so many commands over two keys with each incident at
// each place, against a server whose answers are function calls. Nothing is drawn at random.
func TestSmallScope(t *testing.T) {
	scope{
		server: func() partServer { return newDirect() },
		setups: []scopeSetup{
			{mode: lw.ListAuto}, {mode: lw.ListPages},
			{mode: lw.ListAuto, full: true, less: 1}, {mode: lw.ListPages, full: true, turns: true, less: 1},
			{mode: lw.ListAuto, selector: true, less: 1},
		},
	}.run(t)
}

// TestSmallScopeHTTP is the same of one command less behind HTTP.
func TestSmallScopeHTTP(t *testing.T) { SmallScope(t, plain) }

// TestSmallScopeCBOR is the same in CBOR.
func TestSmallScopeCBOR(t *testing.T) { SmallScope(t, cbor) }

// TestSmallScopeRelay is the same behind a relay, TestSmallScopeRelays behind two in a row that
// keep little.
func TestSmallScopeRelay(t *testing.T)  { SmallScope(t, relayed) }
func TestSmallScopeRelays(t *testing.T) { SmallScope(t, relayedTwice) }
