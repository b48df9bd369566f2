package wire

import (
	"net/http"
	"runtime"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// A Resource is what discovery says of one.
type Resource struct {
	Group, Version string
	Name           string // the plural; of a subresource with the resource before it, as in pods/status
	Singular, Kind string
	ShortNames     []string
	Categories     []string
	Namespaced     bool
	Verbs          []string
	// Of is the group and version of the Kind, where they are not those of the resource.
	Of schema.GroupVersion
	// Schema returns the OpenAPI schema of the objects, which the caller may change at its top. nil:
	// the OpenAPI documents lack the resource, as they lack subresources. Patches are the media types
	// of the patches that the resource takes.
	Schema  func() map[string]any
	Patches []string
}

func (r *Resource) apiVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// With returns the resource and its subresources, of which those that are no status have kinds of
// other groups.
func (r Resource) With(subresources ...string) []Resource {
	all := []Resource{r}
	for _, name := range subresources {
		sub := r
		sub.Name, sub.Singular, sub.ShortNames, sub.Categories, sub.Verbs, sub.Schema = r.Name+"/"+name, "", nil, nil, []string{"get", "patch", "update"}, nil
		switch name {
		case "scale":
			sub.Kind, sub.Of = "Scale", schema.GroupVersion{Group: "autoscaling", Version: "v1"}
		case "finalize":
			sub.Verbs = []string{"update"}
		case "token":
			sub.Kind, sub.Of, sub.Verbs = "TokenRequest", schema.GroupVersion{Group: "authentication.k8s.io", Version: "v1"}, []string{"create"}
		case "binding":
			sub.Kind, sub.Verbs = "Binding", []string{"create"}
		case "eviction":
			sub.Kind, sub.Of, sub.Verbs = "Eviction", schema.GroupVersion{Group: "policy", Version: "v1"}, []string{"create"}
		}
		all = append(all, sub)
	}
	return all
}

// A Discovery answers what a server serves: /api and /apis name the groups and versions,
// /apis/<group> those of one group, and /api/<version> and /apis/<group>/<version> the resources of
// one version; /openapi/v3 and the documents below it describe them, and /openapi/v2 describes
// none. It is an http.Handler.
//
// A client that asks for it gets all at once at /api and /apis: the aggregated discovery of
// https://kep.k8s.io/3352.
type Discovery struct {
	// Resources returns what is served. The versions of a group are in the order of their first
	// resources, the preferred one first. A subresource comes after its resource.
	Resources func() []Resource
	// Version is the answer to /version. If it is nil, neither that nor an OpenAPI document is found.
	Version *version.Info
}

// ServerVersion is the version of Kubernetes whose answers those of this project's servers are.
// Clients compare the numbers; the rest is for people.
var ServerVersion = &version.Info{
	Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "37",
	MinCompatibilityMajor: "1", MinCompatibilityMinor: "36", GitVersion: "v1.37.0+lw", GoVersion: runtime.Version(), Compiler: runtime.Compiler,
	Platform: runtime.GOOS + "/" + runtime.GOARCH,
}

// ServeHTTP answers a request. It is 404 for a path that is not about discovery, or about what is
// not served.
func (d *Discovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.Serve(w, r) {
		http.NotFound(w, r) // in plain text, as kube-apiserver
	}
}

// Serve answers a request. It returns false, and does nothing, where ServeHTTP answers 404.
func (d *Discovery) Serve(w http.ResponseWriter, r *http.Request) bool {
	resources := discovered(d.Resources())
	root := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/")
	answer := resources.answer(root)
	if root == "version" && d.Version != nil {
		answer = d.Version
	}
	if answer == nil {
		answer = d.openAPI(root, resources)
	}
	if root == openAPIv2 && d.Version != nil {
		answer = d
	}
	if answer == nil {
		return false
	}
	accept := r.Header.Get("Accept")
	if r.Method != http.MethodGet && !(r.Method == http.MethodHead && strings.HasPrefix(root, "openapi/")) {
		w.Header().Set("Allow", http.MethodGet)
		f, _ := Negotiate(accept, WantStatus, func(f Format) bool { return f.Shape == Full })
		WriteStatus(w, f, Status(apierrors.NewMethodNotSupported(schema.GroupResource{Resource: root}, strings.ToLower(r.Method))))
		return true
	}
	if root == "api" || root == "apis" {
		w.Header().Add("Vary", "Accept")
		if slices.ContainsFunc(parseAccept(accept), func(c clause) bool { return c.aggregated() && c.matches(typeJSON) }) {
			WriteBody(w, discoveryType, http.StatusOK, append(mustJSON(resources.aggregate(root == "api")), '\n'))
			return true
		}
	}
	if root == openAPIv2 {
		d.writeOpenAPIv2(w, accept)
		return true
	}
	message, inProto := answer.(interface{ Marshal() ([]byte, error) })
	f, err := Negotiate(accept, WantStatus, func(f Format) bool {
		return f == Format{} || f == Format{Encoding: Protobuf} && inProto
	})
	switch {
	case err != nil:
		WriteStatus(w, f, Status(err))
	case f.Encoding == Protobuf:
		var kind metav1.TypeMeta
		kind.APIVersion, kind.Kind = answer.(schema.ObjectKind).GroupVersionKind().ToAPIVersionAndKind()
		body := NewCodec(f, kind, nil).AppendObject(nil, must(message.Marshal()))
		WriteBody(w, f.ContentType(false), http.StatusOK, body)
	default:
		WriteBody(w, f.ContentType(false), http.StatusOK, append(mustJSON(answer), '\n'))
	}
	return true
}

// discovered are the resources of a server.
type discovered []Resource

// answer returns the answer to a request for a path without the slashes around it, or nil if there
// is none.
func (d discovered) answer(path string) any {
	parts := strings.Split(path, "/")
	switch {
	case path == "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: d.versions("")}
	case path == "apis":
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
		for _, group := range d.groups() {
			list.Groups = append(list.Groups, d.group(group))
		}
		return list
	case len(parts) == 2 && parts[0] == "apis" && slices.Contains(d.groups(), parts[1]):
		group := d.group(parts[1])
		group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		return &group
	case len(parts) == 2 && parts[0] == "api":
		return d.list("", parts[1])
	case len(parts) == 3 && parts[0] == "apis":
		return d.list(parts[1], parts[2])
	}
	return nil
}

// RootPaths returns the paths of discovery, in order.
func RootPaths(resources []Resource) []string {
	d := discovered(resources)
	paths := []string{"/api", "/apis"}
	for _, version := range d.versions("") {
		paths = append(paths, "/api/"+version)
	}
	for _, group := range d.groups() {
		paths = append(paths, "/apis/"+group)
		for _, version := range d.versions(group) {
			paths = append(paths, "/apis/"+group+"/"+version)
		}
	}
	slices.Sort(paths)
	return paths
}

// versions returns the versions of a group, the preferred one first.
func (d discovered) versions(group string) []string {
	versions := []string{}
	for _, r := range d {
		if r.Group == group && !slices.Contains(versions, r.Version) {
			versions = append(versions, r.Version)
		}
	}
	return versions
}

// groups returns the groups but the core group, which /api names.
func (d discovered) groups() []string {
	var groups []string
	for _, r := range d {
		if r.Group != "" {
			groups = append(groups, r.Group)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

func (d discovered) group(name string) metav1.APIGroup {
	g := metav1.APIGroup{Name: name}
	for _, v := range d.versions(name) {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v, Version: v})
	}
	g.PreferredVersion = g.Versions[0]
	return g
}

// list returns the resources of one version of a group, or nil if there are none.
func (d discovered) list(group, version string) any {
	list := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: schema.GroupVersion{Group: group, Version: version}.String(),
	}
	for _, r := range d {
		if r.Group == group && r.Version == version {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Name, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind, Verbs: r.Verbs, ShortNames: r.ShortNames,
				Categories: r.Categories, Group: r.Of.Group, Version: r.Of.Version,
			})
		}
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}
