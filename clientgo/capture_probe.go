package clientgo

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion/queryparams"
)

// A probe goes with the context of one call of a ListerWatcher. It sends the request of that call
// if lw can decode the answer, and keeps the response.
type probe struct {
	object reflect.Type       // what lw decodes into
	opts   metav1.ListOptions // of the call
	ctx    context.Context    // of the call, with the probe itself
	// compare: client-go decodes the answer as well, so that both can be compared.
	compare bool

	mu sync.Mutex
	// collection is the URL of the collection that was asked for; "": nothing was sent. Guarded by
	// mu, as all below.
	collection string
	// several: the call has asked for another collection as well. lw cannot know how the
	// ListerWatcher would have made one answer of two.
	several  bool
	response *http.Response
	err      error
	data     []byte // the body of response, if it is to be compared
}

type probeKey struct{}

func newProbe(ctx context.Context, object reflect.Type, opts metav1.ListOptions) *probe {
	p := &probe{object: object, opts: opts}
	p.ctx = context.WithValue(ctx, probeKey{}, p)
	return p
}

// wants reports whether r is a list or a watch whose answer lw can decode.
func (p *probe) wants(r *http.Request) bool {
	if r.Method != http.MethodGet || r.Body != nil && r.Body != http.NoBody || addressIn(r.URL) == nil {
		return false
	}
	_, ok := acceptFor(r.Header.Get("Accept"), p.object)
	return ok
}

// query returns the parameters that say how to list or watch.
func (p *probe) query() (url.Values, error) {
	opts := p.opts
	opts.TypeMeta = metav1.TypeMeta{}
	// The ListerWatcher has had them, and the URL has what it made of them.
	opts.LabelSelector, opts.FieldSelector = "", ""
	return queryparams.Convert(&opts)
}

// end returns the collection for which the probe has a response or an error; "" if the
// ListerWatcher's own answer counts. refuse is why the ListerWatcher must be asked again, without a
// probe; "" if it need not.
func (p *probe) end() (collection, refuse string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.several:
		return "", "the ListerWatcher asks for several collections in one call"
	case p.response == nil && p.err == nil:
		return "", ""
	}
	return p.collection, ""
}
