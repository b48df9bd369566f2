package early

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Known are the flags of kube-apiserver that change something here.
var Known = []string{
	"bind-address", "secure-port", "cert-dir", "tls-cert-file", "tls-private-key-file", "client-ca-file", "service-cluster-ip-range",
	"service-account-issuer", "service-account-signing-key-file", "token-auth-file",
}

// Silent are flags of envtest and its suites that ask for nothing, or for what the server always
// does.
var Silent = []string{
	"advertise-address", "allow-privileged", "etcd-servers", "service-account-key-file", "v",
}

// Flags are the flags of kube-apiserver or etcd. envtest writes them as --name=value, and
// suites add their own; a flag that lwenvtest does not know must not end it.
type Flags struct {
	values map[string][]string
	Help   bool
}

// Parse reads the arguments of a program.
func Parse(args []string) Flags {
	f := Flags{values: map[string][]string{}}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value = args[i]
		}
		f.Help = f.Help || name == "help" || name == "h"
		f.values[name] = append(f.values[name], value)
	}
	return f
}

// Last returns the value of a flag that is given last, or "".
func (f Flags) Last(name string) string {
	if v := f.values[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// Beside returns the flags that are not among known, sorted.
func (f Flags) Beside(known []string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(f.values)), func(name string) bool { return slices.Contains(known, name) })
}

// Loopback reports why a server must not listen at host. The server is for tests: it has no limits,
// and its admin is whoever has the certificate of a test.
func Loopback(host string) error {
	if host == "localhost" {
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%q is no loopback address; lwenvtest is for tests and listens nowhere else", host)
}
