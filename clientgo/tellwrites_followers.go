package clientgo

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/wire"
)

// A place is a resource in one version, and the server that has it.
type place struct {
	server                   string // its host, and what comes before the path of the API
	group, version, resource string
}

// placeOf returns the place of a URL, and what else its path names. ok is false if it is the path
// of no resource.
func placeOf(u *url.URL) (at place, t wire.Target, ok bool) {
	for i := 0; i < len(u.Path); i++ {
		if rest := u.Path[i:]; strings.HasPrefix(rest, "/api/") || strings.HasPrefix(rest, "/apis/") {
			if t, ok = wire.ParsePath(rest); ok && t.Verb == "" && !t.Wrong {
				return place{u.Host + u.Path[:i], t.Group, t.Version, t.Resource}, t, true
			}
		}
	}
	return at, t, false
}

// followers are the informers that ask through one client.
type followers struct {
	mu sync.Mutex
	of map[place][]*follower // guarded by mu; the slices are replaced and never changed
}

// A follower is an informer that follows a place, in one namespace or in all, and with selectors.
// It is not changed once it is noted.
type follower struct {
	teller         *request.Teller
	namespace      string // "": all
	labels, fields string // its selectors
	labelSelector  labels.Selector
	fieldSelector  fields.Selector
	metadata       bool       // its objects are PartialObjectMetadata
	unknown        bool       // the selectors cannot be evaluated
	logged         *sync.Once // that the informer was not told
}

// note notes that the informer of teller sends r.
func (fs *followers) note(r *http.Request, teller *request.Teller) {
	at, t, ok := placeOf(r.URL)
	if !ok || t.Name != "" {
		return
	}
	query := r.URL.Query()
	f := &follower{
		teller: teller, namespace: t.Namespace, labels: query.Get("labelSelector"), fields: query.Get("fieldSelector"),
		metadata: strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata"), logged: new(sync.Once),
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := fs.of[at]
	i := slices.IndexFunc(all, func(other *follower) bool { return other.teller == teller && other.namespace == f.namespace })
	switch {
	case i < 0:
		f.parse()
		if teller.AfterRun(func() { fs.forget(at, teller) }) {
			fs.of[at] = append(slices.Clip(all), f)
		}
	case all[i].labels != f.labels || all[i].fields != f.fields:
		f.parse()
		all = slices.Clone(all)
		all[i] = f
		fs.of[at] = all
	}
}

func (fs *followers) forget(at place, teller *request.Teller) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(fs.of[at]), func(f *follower) bool { return f.teller == teller })
	if fs.of[at] = left; len(left) == 0 {
		delete(fs.of, at)
	}
}

// in returns those that follow the place in that namespace.
func (fs *followers) in(at place, namespace string) (in []*follower) {
	fs.mu.Lock()
	all := fs.of[at]
	fs.mu.Unlock()
	for _, f := range all {
		if f.namespace == "" || f.namespace == namespace {
			in = append(in, f)
		}
	}
	return in
}

// parse sets the selectors.
func (f *follower) parse() {
	var err, err2 error
	f.labelSelector, err = labels.Parse(f.labels)
	f.fieldSelector, err2 = fields.ParseSelector(f.fields)
	if f.unknown = err != nil || err2 != nil; f.unknown {
		return
	}
	for _, r := range f.fieldSelector.Requirements() {
		f.unknown = f.unknown || r.Field != metav1.ObjectNameField && r.Field != "metadata.namespace" ||
			r.Operator != selection.Equals && r.Operator != selection.DoubleEquals && r.Operator != selection.NotEquals
	}
}

// selects reports whether the informer selects the object; known is false if only the server can
// say.
func (f *follower) selects(a *request.Answer) (selected, known bool) {
	if f.unknown {
		return false, false
	}
	return f.labelSelector.Matches(labels.Set(a.Labels)) && (f.fieldSelector.Empty() || f.fieldSelector.Matches(fields.Set{metav1.ObjectNameField: a.Name, "metadata.namespace": a.Namespace})), true
}

// log logs the first err of an informer that was not told.
func (f *follower) log(logger klog.Logger, err error) {
	if err != nil {
		f.logged.Do(func() {
			logger.Info("An informer is not told what the server answers to writes, and waits for its watch", "reason", err)
		})
	}
}

// note notes a write, if anybody asks for writes.
func note(own request.Own, uid types.UID, version string, to []*follower) {
	if !request.OwnRemembered() {
		return
	}
	by := make([]*request.Teller, len(to))
	for i, f := range to {
		by[i] = f.teller
	}
	own.Note(uid, version, by)
}
