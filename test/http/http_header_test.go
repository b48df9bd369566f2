package http_test

import (
	"net/http"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// No retry can send a header that net/http refuses, so Run ends at once, with an error that names
// the header but does not show its value.
func TestHTTPInvalidHeader(t *testing.T) {
	for name, tt := range map[string]struct {
		header http.Header
		accept string
		want   string
	}{
		"a space in a name":         {http.Header{"X-Ok": {"1"}, "X Y": {"1"}}, "", `HTTP: http://server/x: header "X Y": invalid name`},
		"no name":                   {http.Header{"": {"1"}}, "", `HTTP: http://server/x: header "": invalid name`},
		"a name beyond ASCII":       {http.Header{"Schlüssel": {"1"}}, "", `HTTP: http://server/x: header "Schlüssel": invalid name`},
		"a colon in a name":         {http.Header{"Authorization:": {"1"}}, "", `HTTP: http://server/x: header "Authorization:": invalid name`},
		"a line break in a value":   {http.Header{"Authorization": {"ok", "Bearer =secret\n"}}, "", `HTTP: http://server/x: header "Authorization": invalid value: it has a control character, such as a line break`},
		"a line break in an Accept": {nil, "application/json\r\n", `HTTP: http://server/x: header "Accept": invalid value: it has`},
		"a DEL in a value":          {http.Header{"X-Y": {"\x7f"}}, "", `HTTP: http://server/x: header "X-Y": invalid value: it has`},
	} {
		t.Run(name, func(t *testing.T) {
			rig.EndsAtOnce(t, &lw.HTTP[*rig.Gadget]{URL: "http://server/x", Header: tt.header, Accept: tt.accept}, "stream", tt.want)
		})
	}
}
