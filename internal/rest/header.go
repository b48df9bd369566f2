package rest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// checkHeader returns an error that names the first header, in the order of names, that net/http
// refuses to send. It does not show the value, which may be a credential.
func checkHeader(h http.Header) error {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == "" || strings.ContainsFunc(name, notInName) {
			return fmt.Errorf("header %q: invalid name", name)
		}
		for _, value := range h[name] {
			// This loop goes by bytes, because a value may have any byte above ASCII, and need not
			// be UTF-8.
			for i := range len(value) {
				if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
					return fmt.Errorf("header %q: invalid value: it has a control character, such as a line break", name)
				}
			}
		}
	}
	return nil
}

// notInName reports whether c is not allowed in the name of a header, which is a token of RFC 9110,
// section 5.6.2.
func notInName(c rune) bool {
	switch {
	case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		return false
	}
	return !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}
