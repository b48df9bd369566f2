package pace

import (
	"testing"
	"time"
)

// An outage began when the server was last in touch: not at a later failure, and not before what has
// ended the doubt.
func TestDowntimeBegins(t *testing.T) {
	at := time.Now()
	before, after := at.Add(-time.Minute), at.Add(time.Minute)
	for name, tt := range map[string]struct {
		do   func(d *Downtime)
		want time.Time
	}{
		"the first failure counts":    {func(d *Downtime) { d.Lost(at); d.Lost(after) }, at},
		"a quiet watch came before":   {func(d *Downtime) { d.quiet = before; d.Lost(at) }, before},
		"a quiet watch came after":    {func(d *Downtime) { d.quiet = after; d.Lost(at) }, at},
		"lifted since the quiet one":  {func(d *Downtime) { d.quiet = before; d.Lift(); d.Lost(at) }, at},
		"a list since the quiet one":  {func(d *Downtime) { d.quiet = before; d.Listed(); d.Lost(at) }, at},
		"no answer since a quiet one": {func(d *Downtime) { d.quiet = before; d.Deny(); d.Lost(at) }, at},
		"lifted since a failure":      {func(d *Downtime) { d.Lost(before); d.Lift(); d.Lost(at) }, at},
	} {
		d := new(Downtime)
		if tt.do(d); !d.since.Equal(tt.want) {
			t.Errorf("%s: out of touch since %v, want %v", name, d.since.Sub(at), tt.want.Sub(at))
		}
	}
}
