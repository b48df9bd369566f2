package listopts

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Path returns what the objects of a list are sorted by: the end of the object's key in etcd.
func Path(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// Prefix returns what the paths of all objects of a namespace begin with: "" for all namespaces.
func Prefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "/"
}

// A Token says where the next page of a list begins. A client must not look into it, but
// kube-apiserver uses this form, and so do we: a client may get a page from one server and the next
// page from another, if these servers have the same versions.
type Token struct {
	// Version is that of the state that the list shows, or Inconsistent.
	Version int64
	// Start is the first path that may follow, without the prefix of the request's namespace. So a
	// token has no meaning of its own: in another namespace the list goes on at that name there.
	Start string
}

// Inconsistent is the version of a token whose next page shows the state that is current when the
// page is asked for.
const Inconsistent = -1

// After returns the token for the page after the object at a path, in a list of one namespace, or
// of all if it is empty, that shows the state at version.
func After(version uint64, namespace, path string) Token {
	// With a zero byte after it the path becomes the first one that may follow.
	return Token{Version: int64(version), Start: strings.TrimPrefix(path, Prefix(namespace)) + "\x00"}
}

// From returns the path at or after which the page begins in a list of a namespace.
func (t Token) From(namespace string) string { return Prefix(namespace) + t.Start }

// maxToken is more than a token has whose path is as long as a namespace and a name may be.
const maxToken = 4 << 10

const tokenAPI = "meta.k8s.io/v1"

// tokenJSON is a Token inside its encoding.
type tokenJSON struct {
	API     string `json:"v"`
	Version int64  `json:"rv"`
	Start   string `json:"start"`
}

// Encode returns the token as a list has it, and as a request sends it back.
func (t Token) Encode() string {
	b, err := json.Marshal(tokenJSON{tokenAPI, t.Version, t.Start})
	if err != nil {
		panic(err) // cannot happen: it has two strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeToken returns the token that a request has. Every negative version becomes Inconsistent.
// The error is BadRequest for what is no token.
func DecodeToken(s string) (Token, error) {
	var t tokenJSON
	if len(s) > maxToken {
		return Token{}, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: it has %d bytes", len(s)))
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	// A path that is not clean is in no token of a server, but kube-apiserver would take the slash
	// at its beginning.
	start := strings.TrimPrefix(t.Start, "/")
	if err == nil && (t.API != tokenAPI || t.Version == 0 || start == "" || path.Clean("/"+start) != "/"+start) {
		err = errors.New("no token of this server")
	}
	if err != nil {
		return Token{}, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: %v", err))
	}
	return Token{Version: max(t.Version, Inconsistent), Start: start}, nil
}

// Continued returns the token of a list that has one. The error is BadRequest for what is no token,
// and for a resource version beside it.
func Continued(opts metav1.ListOptions) (Token, error) {
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return Token{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	return DecodeToken(opts.Continue)
}
