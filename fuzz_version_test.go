package lw_test

import (
	"context"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"github.com/go-lw/lw"
)

// decimal is a resource version with an order (https://kep.k8s.io/5504).
var decimal = regexp.MustCompile(`^[1-9][0-9]*$`)

// FuzzVersions compares the order of resource versions, as a list with one object twice and a wait see it, with that of math/big.
func FuzzVersions(f *testing.F) {
	for _, pair := range [][2]string{
		{"1", "2"}, {"9", "10"}, {"10", "9"}, {"18446744073709551616", "18446744073709551615"},
		{"340282366920938463463374607431768211456", "99999999999999999999999999999999999999"},
		{"0", "1"}, {"01", "1"}, {"", "1"}, {"a", "b"}, {"-1", "1"}, {"1 ", "1"}, {"1_0", "9"}, {"١", "1"}, {"1e3", "2"}, {"+5", "4"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		first, second := stamped("a", 1, a), stamped("a", 2, b)
		want := 2 // the last one, where there is no order or it is the same version
		if decimal.MatchString(a) && decimal.MatchString(b) && bigOf(a).Cmp(bigOf(b)) > 0 {
			want = 1
		}
		x := lw.NewIndexer[*Widget]()
		x.Replace([]*Widget{first, second}, "1")
		if got, ok := x.Get(key("a")); !ok || got.Size != want || x.Len() != 1 {
			t.Errorf("of %q and %q the store has %+v, want number %d", a, b, got, want)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := lw.NewInformer(lw.NewMemory[*Widget](), nil).WaitForResourceVersion(ctx, a)
		if err == nil || errors.Is(err, context.Canceled) != decimal.MatchString(a) || !strings.Contains(err.Error(), "Widget") {
			t.Errorf("a wait for %q: %v", a, err)
		}
	})
}

func bigOf(version string) *big.Int {
	v, ok := new(big.Int).SetString(version, 10)
	if !ok {
		panic(version)
	}
	return v
}
