package http_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// redirects returns a client of servers that lead each request on to the next of the URLs, from the
// last of which the list comes, and what each was sent: "host: keys".
func redirects(urls ...string) (*http.Client, *[]string) {
	var sent []string
	n := 0
	return &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		var keys []string
		for name, values := range r.Header {
			if name == "X-Api-Key" || name == "Authorization" || name == "x-raw" {
				keys = append(keys, name+"="+strings.Join(values, ","))
			}
		}
		slices.Sort(keys)
		if r.Header.Get("Accept") != "application/json" {
			keys = append(keys, "Accept="+r.Header.Get("Accept"))
		}
		sent = append(sent, strings.TrimSpace(r.URL.Scheme+"://"+r.URL.Host+" "+strings.Join(keys, " ")))
		if n++; n <= len(urls) {
			return response(r, http.StatusTemporaryRedirect, http.Header{"Location": {urls[n-1]}}, ""), nil
		}
		return response(r, 200, rig.ContentType("application/json"), gadgetList(gadgetA)), nil
	})}, &sent
}

// What Header holds may be a key. It is sent to the URL's own server, and to no other that this
// one, or the one after it, names.
func TestHTTPHeaderStaysAtHome(t *testing.T) {
	const keys = " Authorization=Bearer t X-Api-Key=k x-raw=r"
	for name, tt := range map[string]struct {
		url  string
		to   []string
		want []string
	}{
		"no redirect":             {"https://a/x", nil, []string{"https://a" + keys}},
		"to another path":         {"https://a/x", []string{"/y", "https://a/z?q=1"}, []string{"https://a" + keys, "https://a" + keys, "https://a" + keys}},
		"the port spelled out":    {"https://a/x", []string{"https://a:443/y"}, []string{"https://a" + keys, "https://a:443" + keys}},
		"the same of http":        {"http://a:80/x", []string{"http://a/y"}, []string{"http://a:80" + keys, "http://a" + keys}},
		"to another host":         {"https://a/x", []string{"https://b/x"}, []string{"https://a" + keys, "https://b"}},
		"to a host below":         {"https://a/x", []string{"https://b.a/x"}, []string{"https://a" + keys, "https://b.a"}},
		"to another port":         {"https://a/x", []string{"https://a:6443/x"}, []string{"https://a" + keys, "https://a:6443"}},
		"from https to http":      {"https://a:1/x", []string{"http://a:1/x"}, []string{"https://a:1" + keys, "http://a:1"}},
		"there and back":          {"https://a/x", []string{"https://b/x", "https://a/y"}, []string{"https://a" + keys, "https://b", "https://a"}},
		"there, back and on":      {"https://a/x", []string{"https://b/x", "https://a/y", "https://a/z"}, []string{"https://a" + keys, "https://b", "https://a", "https://a"}},
		"there, on and back":      {"https://a/x", []string{"https://b/x", "https://b/y", "https://c/", "https://a/y"}, []string{"https://a" + keys, "https://b", "https://b", "https://c", "https://a"}},
		"at home, there and back": {"https://a/x", []string{"/y", "https://b/x", "https://a/"}, []string{"https://a" + keys, "https://a" + keys, "https://b", "https://a"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, sent := redirects(tt.to...)
			header := http.Header{"X-Api-Key": {"k"}, "Authorization": {"Bearer t"}, "x-raw": {"r"}, "Accept": {"not this"}}
			src := &lw.HTTP[*rig.Gadget]{URL: tt.url, Client: c, Header: header}
			if got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{}); err != nil || len(got.What) != 1 {
				t.Fatalf("%d objects, error %v", len(got.What), err)
			}
			rig.Same(t, "sent", tt.want, *sent)
			if c.CheckRedirect != nil || len(header) != 4 {
				t.Error("the client or the header was changed")
			}
		})
	}
}

// Two real servers: the second one sees no key, however the first one is asked.
func TestHTTPHeaderBetweenServers(t *testing.T) {
	var keys []string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Host+r.URL.Path+" "+r.Header.Get("X-Api-Key"))
		w.Header().Set("Content-Type", "application/json")
		switch r.Host + r.URL.Path {
		case "one/x":
			http.Redirect(w, r, "http://two/x", http.StatusFound)
		case "two/x":
			http.Redirect(w, r, "http://one/y", http.StatusFound)
		default:
			_, _ = w.Write([]byte(gadgetList(gadgetA)))
		}
	})
	src := &lw.HTTP[*rig.Gadget]{URL: "http://one/x", Client: other, Header: http.Header{"X-Api-Key": {"k"}}}
	got, _, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	if diff := cmp.Diff([]string{"one/x k", "two/x ", "one/y "}, keys); err != nil || diff != "" || len(got.What) != 1 {
		t.Errorf("list %v, error %v (-want +got):\n%s", got.What, err, diff)
	}
}

// The client's own policy is asked all the same; without one, as without headers, ten redirects are
// followed.
func TestHTTPRedirectPolicy(t *testing.T) {
	header := http.Header{"X-Api-Key": {"k"}}
	list := func(c *http.Client, header http.Header) error {
		_, _, err := rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "https://a/x", Client: c, Header: header}, metav1.ListOptions{})
		return err
	}
	for _, header := range []http.Header{nil, header} {
		for n, want := range map[int]string{9: "", 10: "stopped after 10 redirects"} {
			c, _ := redirects(slices.Repeat([]string{"/y"}, n)...)
			if err := list(c, header); !rig.Matches(err, want) {
				t.Errorf("%d redirects, header %v: %v, want %q", n, header, err, want)
			}
		}
	}
	refuse := errors.New("stay here")
	c, sent := redirects("https://b/x")
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != "b" || len(via) != 1 || req.Header.Get("X-Api-Key") != "" {
			t.Errorf("asked whether to go to %v with %v after %d", req.URL, req.Header, len(via))
		}
		return refuse
	}
	if err := list(c, header); !errors.Is(err, refuse) || len(*sent) != 1 || !rig.Matches(err, "lw: HTTP: https://a/x: redirected to https://b/x: stay here") {
		t.Errorf("error %v after %v", err, *sent)
	}
}

// Where a redirect led is in the error of what came from there.
func TestHTTPErrorsNameWhereRedirectsLed(t *testing.T) {
	for to, want := range map[string]string{
		"https://login/in?secret=1": "lw: HTTP: https://a/x: redirected to https://login/in: ",
		"/y?secret=1":               "lw: HTTP: https://a/x: redirected to https://a/y: ",
		"/x?secret=1":               "lw: HTTP: https://a/x: ",
	} {
		for _, last := range []func(r *http.Request) (*http.Response, error){
			func(r *http.Request) (*http.Response, error) {
				return response(r, 200, rig.ContentType("text/html"), "Log in"), nil
			},
			func(r *http.Request) (*http.Response, error) { return response(r, 200, nil, "Log in"), nil },
			func(r *http.Request) (*http.Response, error) { return nil, errors.New("no route") },
		} {
			c := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Has("limit") {
					return response(r, http.StatusFound, http.Header{"Location": {to}}, ""), nil
				}
				return last(r)
			})}
			_, _, err := rig.ListAll(t.Context(), &lw.HTTP[*rig.Gadget]{URL: "https://a/x", Client: c}, metav1.ListOptions{Limit: 1})
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") ||
				strings.Contains(err.Error(), "redirected") != strings.Contains(want, "redirected") {
				t.Errorf("%s: got %v, want %s…", to, err, want)
			}
		}
	}
}
