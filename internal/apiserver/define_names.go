package apiserver

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

type definitionNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

// equal reports whether n and other say the same.
func (n *definitionNames) equal(other *definitionNames) bool {
	return n.Plural == other.Plural && n.Singular == other.Singular && n.Kind == other.Kind && n.ListKind == other.ListKind &&
		slices.Equal(n.ShortNames, other.ShortNames) && slices.Equal(n.Categories, other.Categories)
}

// owners have the definition that has a name, or several.
type owners map[schema.GroupResource]*definition

// several stands for more than one definition.
var several = new(definition)

// add notes that d has names, of which "" is none.
func (o owners) add(d *definition, names ...string) {
	for _, name := range names {
		id := schema.GroupResource{Group: d.Spec.Group, Resource: name}
		switch was := o[id]; {
		case name == "":
		case was == nil:
			o[id] = d
		case was != d:
			o[id] = several
		}
	}
}

// acceptedNames are those of the definitions of some groups.
type acceptedNames struct{ resources, kinds owners }

func namesOf(all []*definition, groups map[string]bool) acceptedNames {
	names := acceptedNames{owners{}, owners{}}
	for _, def := range all {
		if !groups[def.Spec.Group] {
			continue
		}
		n := &def.Status.AcceptedNames
		names.resources.add(def, n.Plural, n.Singular)
		names.resources.add(def, n.ShortNames...)
		names.kinds.add(def, n.Kind, n.ListKind)
	}
	return names
}

// free returns those names of d that no other definition of its group has, and the reason and the
// message of the condition about them.
func (d *definition) free(all acceptedNames) (names definitionNames, reason, message string) {
	want := d.Spec.Names
	names, reason, message = d.Status.AcceptedNames, "NoConflicts", "no conflicts found"
	taken := func(what string, used owners, names ...string) bool {
		i := slices.IndexFunc(names, func(name string) bool {
			owner := used[schema.GroupResource{Group: d.Spec.Group, Resource: name}]
			return owner != nil && owner != d
		})
		if i >= 0 {
			reason, message = what+"Conflict", fmt.Sprintf("%q is already in use", names[i])
		}
		return i >= 0
	}
	if !taken("Plural", all.resources, want.Plural) {
		names.Plural = want.Plural
	}
	if !taken("Singular", all.resources, want.Singular) {
		names.Singular = want.Singular
	}
	if !taken("ShortNames", all.resources, want.ShortNames...) {
		names.ShortNames = want.ShortNames
	}
	if !taken("Kind", all.kinds, want.Kind) {
		names.Kind = want.Kind
	}
	if !taken("ListKind", all.kinds, want.ListKind) {
		names.ListKind = want.ListKind
	}
	names.Categories = want.Categories
	return names, reason, message
}
