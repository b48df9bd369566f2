package simulate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type ownerRef = metav1.OwnerReference

var (
	uidForm  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timeForm = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	ipForm   = regexp.MustCompile(`\b10\.0\.\d+\.\d+\b`) // as the kubelets give them
	// nameForm is the end of a name that was generated, as apimachinery's rand.String makes it.
	nameForm = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b`)
)

// stem returns a name, or a text with names, without what was generated.
func stem(name string) string { return nameForm.ReplaceAllString(name, "-*") }

// bare returns a name, or a text, without generated names and UIDs.
func bare(name string) string { return stem(uidForm.ReplaceAllString(name, "<uid>")) }

// fields returns the fields of an object by their paths, without what differs from run to run:
// versions, UIDs, times, Pods' addresses, generated names and the order of lists that have none by
// their schemas.
func (w *World) fields(obj *unstructured.Unstructured, names *strings.Replacer) map[string]string {
	generation := fmt.Sprint(obj.GetGeneration())
	out := w.shapes[obj.GroupVersionKind().GroupKind()].Flatten(obj.Object, func(path, value string) string {
		if strings.HasSuffix(path, "esourceVersion") {
			return "a version" // in a reference
		}
		if strings.HasSuffix(path, "bservedGeneration") {
			if value == generation {
				return "the generation"
			}
			return "an older generation"
		}
		return names.Replace(bare(timeForm.ReplaceAllString(ipForm.ReplaceAllString(value, "<ip>"), "<time>")))
	})
	maps.DeleteFunc(out, ofForeign)
	for _, path := range slices.Sorted(maps.Keys(out)) { // a member may have a UID for its name
		if to := uidForm.ReplaceAllString(path, "<uid>"); to != path {
			for n := 1; ; n++ {
				if _, taken := out[to]; !taken {
					break
				}
				to = fmt.Sprintf("%s#%d", uidForm.ReplaceAllString(path, "<uid>"), n)
			}
			out[to] = out[path]
			delete(out, path)
		}
	}
	return out
}

// difference says how two states differ; "": they do not.
func (w *World) difference(calm, here State, varies map[string]bool) string {
	a, b := w.group(calm, varies), w.group(here, varies)
	var out []string
	for _, name := range sortedKeys(a, b) {
		was, is := a[name], b[name]
		// Objects of one generated name are compared as a set.
		for i := 0; i < len(was); i++ {
			if j := slices.Index(is, was[i]); j >= 0 {
				was, is = slices.Delete(was, i, i+1), slices.Delete(is, j, j+1)
				i--
			}
		}
		for i := range max(len(was), len(is)) {
			switch {
			case i >= len(is):
				out = append(out, "- "+name+" is missing")
			case i >= len(was) && w.more(strings.Fields(name)[0]):
			case i >= len(was):
				out = append(out, "+ "+name+" is there too")
			default:
				out = append(out, lineDiff(name, was[i], is[i])...)
			}
		}
	}
	return strings.Join(out, "\n")
}

// more reports whether there may be more objects of a kind than in the calm run.
func (w *World) more(kind string) bool { return slices.Contains(w.Varies, w.plural(kind)) }

func (w *World) plural(kind string) string {
	for _, r := range w.Resources {
		if r.Kind == kind {
			return r.Plural
		}
	}
	return ""
}

func sortedKeys[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// group returns the objects of a state as texts, by kind and name.
func (w *World) group(s State, varies map[string]bool) map[string][]string {
	out, names := map[string][]string{}, w.names(s)
	for _, obj := range s.Objects {
		name, f, plural := title(obj, names), w.fields(obj, names), w.plural(obj.GetKind())
		var lines []string
		for _, path := range slices.Sorted(maps.Keys(f)) {
			value := f[path]
			full := plural + "." + path
			if varies[name+" "+path] || slices.ContainsFunc(w.Varies, func(v string) bool {
				return full == v || strings.HasPrefix(full, v+".") || strings.HasPrefix(full, v+"[")
			}) {
				continue
			}
			lines = append(lines, path+": "+value)
		}
		out[name] = append(out[name], strings.Join(lines, "\n"))
	}
	for _, texts := range out {
		slices.Sort(texts)
	}
	return out
}

func lineDiff(name, was, is string) []string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	var out []string
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+name+": "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+name+": "+line)
		}
	}
	return out
}

func title(obj *unstructured.Unstructured, names *strings.Replacer) string {
	return obj.GetKind() + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+names.Replace(bare(obj.GetName())), "/")
}

// names takes the names away that the program has made up, in a way of its own: of a kind of which
// two calm runs had other names, all that not both had.
func (w *World) names(s State) *strings.Replacer {
	var pairs []string
	for _, name := range slices.Backward(sortedKeys(s.names, nil)) { // of two that begin alike the longer one
		kind, bare, _ := strings.Cut(name, " ")
		if w.random[kind] && !w.common[name] {
			pairs = append(pairs, bare, "*")
		}
	}
	return strings.NewReplacer(pairs...)
}

// varying returns the fields that differ between two calm runs.
func (w *World) varying(a, b State) map[string]bool {
	out := map[string]bool{}
	w.random, w.common = map[string]bool{}, map[string]bool{}
	for name := range a.names {
		w.common[name] = b.names[name]
		kind, _, _ := strings.Cut(name, " ")
		w.random[kind] = w.random[kind] || !b.names[name]
	}
	left, right := map[string]map[string]string{}, map[string]map[string]string{}
	for _, side := range []struct {
		to map[string]map[string]string
		s  State
	}{{left, a}, {right, b}} {
		names := w.names(side.s)
		for _, obj := range side.s.Objects {
			side.to[title(obj, names)] = w.fields(obj, names)
		}
	}
	for name, f := range left {
		for _, path := range sortedKeys(f, right[name]) {
			if right[name] != nil && f[path] != right[name][path] {
				out[name+" "+path] = true
			}
		}
	}
	return out
}
