package registry

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A part is a subresource of a built-in kind by which a client changes a part of the object, and
// nothing else there. It returns what is stored: sent or old, which it may change, or what is
// wrong.
type part func(sent, old document) (document, field.ErrorList)

// The subresources that parts are.
const (
	SubApproval  = "approval"            // of a CertificateSigningRequest
	SubFinalize  = "finalize"            // of a Namespace
	SubEphemeral = "ephemeralcontainers" // of a Pod
	SubResize    = "resize"              // of a Pod
	SubBinding   = "binding"             // of a Pod, which the server itself changes then
	SubEviction  = "eviction"            // likewise
)

const csrs = "certificatesigningrequests.certificates.k8s.io"

// parts are those of each resource. That of "" is the object itself.
var parts = map[string]map[string]part{
	csrs:   {SubApproval: approve, SubStatus: issue},
	"pods": {SubEphemeral: addContainers, SubResize: resize, SubBinding: whole, SubEviction: whole},
}

// namespaceParts are those of Namespaces that end as those of kube-apiserver; see Kind.Ends.
var namespaceParts = map[string]part{"": keepFinalizers, SubFinalize: finalize}

func (k *Kind) part(subresource string) part {
	if k.Ends {
		return namespaceParts[subresource]
	}
	if k.Version != "v1" {
		return nil
	}
	return parts[k.GroupResource().String()][subresource]
}

// Parts returns the subresources by which a part of the objects changes, but for the status.
func (k *Kind) Parts() []string {
	var names []string
	for _, name := range []string{SubApproval, SubFinalize, SubEphemeral, SubResize} {
		if k.part(name) != nil {
			names = append(names, name)
		}
	}
	return names
}

// merge gives o what the subresource of the write leaves of it and of old, if that is a part.
func (w *Write) merge(o, old *Object) error {
	k := w.kind
	p := k.part(w.req.Subresource)
	if p == nil || w.req.Subresource == "" && w.req.Whole {
		return nil
	}
	sent, err := k.content(o)
	if err != nil {
		return err
	}
	was, err := k.content(old)
	if err != nil {
		return err
	}
	merged, errs := p(sent.Object, was.Object)
	if len(errs) > 0 {
		return k.invalid(old.Meta.Name, errs)
	}
	if w.req.Subresource == SubEphemeral || w.req.Subresource == SubResize {
		managed := o.Meta.ManagedFields
		o.Meta = old.Meta
		o.Meta.ManagedFields = managed
	}
	return k.become(o, merged)
}

// become gives o another content, and leaves it its metadata.
func (k *Kind) become(o *Object, content document) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	next, _, err := k.object(data, false)
	if err != nil {
		return badRequest("%v", err)
	}
	next.Meta = o.Meta
	*o = *next
	return nil
}

// in returns the object at a name of an object, which is made if it is not there.
func in(o document, name string) document {
	d, ok := o[name].(document)
	if !ok {
		d = document{}
		o[name] = d
	}
	return d
}

// move sets a member of one object to that of another.
func move(name string, from, to document) {
	if value, ok := from[name]; ok {
		to[name] = value
	} else {
		delete(to, name)
	}
}

func forbidden(at *field.Path, format string, args ...any) field.ErrorList {
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf(format, args...))}
}

func whole(sent, _ document) (document, field.ErrorList) { return sent, nil }

// byServer reports whether it is the server's storage that changes the object, at a request that
// has no object of this kind.
func (w *Write) byServer() bool {
	return w.req.Subresource == SubBinding || w.req.Subresource == SubEviction
}

// objects returns the members of a list that are objects.
func objects(list any) (all []document) {
	items, _ := list.([]any)
	for _, item := range items {
		if d, ok := item.(document); ok {
			all = append(all, d)
		}
	}
	return all
}

// entry returns the member of a list by the value of its key.
func entry(list any, key string, name any) document {
	for _, d := range objects(list) {
		if d[key] == name {
			return d
		}
	}
	return nil
}

func addContainers(sent, old document) (document, field.ErrorList) {
	at := field.NewPath("spec", "ephemeralContainers")
	given := in(sent, "spec")["ephemeralContainers"]
	for _, c := range objects(in(old, "spec")["ephemeralContainers"]) {
		if next := entry(given, "name", c["name"]); next == nil {
			return nil, forbidden(at, "existing ephemeral containers %q may not be removed\n", c["name"])
		} else if string(mustJSON(next)) != string(mustJSON(c)) {
			return nil, forbidden(at, "existing ephemeral containers %q may not be changed\n", c["name"])
		}
	}
	move("ephemeralContainers", in(sent, "spec"), in(old, "spec"))
	return old, nil
}

// resize takes the resources of containers and of the Pod.
func resize(sent, old document) (document, field.ErrorList) {
	from, to := in(sent, "spec"), in(old, "spec")
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range objects(to[list]) {
			if next := entry(from[list], "name", c["name"]); next != nil {
				move("resources", next, c)
				move("resizePolicy", next, c)
			}
		}
	}
	if _, ok := from["resources"]; ok { // a client that does not know them leaves them
		move("resources", from, to)
	}
	return old, nil
}

// decisions are the conditions by which a CertificateSigningRequest is approved or not.
var decisions = []string{"Approved", "Denied"}

// approve takes the conditions.
func approve(sent, old document) (document, field.ErrorList) {
	at := field.NewPath("status", "conditions")
	given := in(sent, "status")["conditions"]
	dated(given, in(old, "status")["conditions"])
	for _, kind := range append(decisions, "Failed") {
		if entry(in(old, "status")["conditions"], "type", kind) != nil && entry(given, "type", kind) == nil {
			return nil, forbidden(at, "updates may not remove a condition of type %q", kind)
		}
	}
	if denied := entry(given, "type", "Denied"); denied != nil && entry(given, "type", "Approved") != nil {
		i := slices.IndexFunc(objects(given), func(c document) bool { return c["type"] == "Denied" })
		const both = "Approved and Denied conditions are mutually exclusive"
		return nil, field.ErrorList{field.Invalid(at.Index(i).Child("type"), "Denied", both)}
	}
	move("conditions", in(sent, "status"), in(old, "status"))
	return old, nil
}

// issue takes the status but for the decisions.
func issue(sent, old document) (document, field.ErrorList) {
	at := field.NewPath("status", "conditions")
	given, was := in(sent, "status")["conditions"], in(old, "status")["conditions"]
	for _, kind := range decisions {
		before, after := entry(was, "type", kind), entry(given, "type", kind)
		switch {
		case before == nil && after != nil:
			return nil, forbidden(at, "updates may not add a condition of type %q", kind)
		case before != nil && after == nil:
			return nil, forbidden(at, "updates may not remove a condition of type %q", kind)
		case before != nil:
			clear(after)
			for name, value := range before {
				after[name] = value
			}
		}
	}
	dated(given, was)
	move("status", sent, old)
	return old, nil
}

// dated gives conditions the times that they lack: those of their last change are those that they
// had, unless their status is new.
func dated(given, was any) {
	t := now().Format("2006-01-02T15:04:05Z")
	for _, c := range objects(given) {
		if c["lastUpdateTime"] == nil {
			c["lastUpdateTime"] = t
		}
		if c["lastTransitionTime"] != nil {
			continue
		}
		c["lastTransitionTime"] = t
		if before := entry(was, "type", c["type"]); before["status"] == c["status"] && before["lastTransitionTime"] != nil {
			c["lastTransitionTime"] = before["lastTransitionTime"]
		}
	}
}

// keepFinalizers leaves a Namespace its spec.finalizers.
func keepFinalizers(sent, old document) (document, field.ErrorList) {
	move("finalizers", in(old, "spec"), in(sent, "spec"))
	return sent, nil
}

func finalize(sent, old document) (document, field.ErrorList) {
	move("status", old, sent)
	return sent, nil
}
