package main

import (
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/types/typeutil"
)

// An analysis finds what a program reads of some API types.
type analysis struct {
	graph
	p      *program
	ignore *regexp.Regexp

	values    map[ssa.Value]vid
	tuples    map[tupleKey]vid
	resultIDs map[resultKey]vid
	fields    map[memoryKey]vid
	memories  map[string]vid
	refined   map[refinedKey]vid
	checks    map[*ssa.Function]map[any][]assertion

	anyTags    map[*apiType]tag
	failedTags map[*apiType]tag
	funcTags   map[*ssa.Function]tag
	boxTags    typeutil.Map
	foreignTag tag
	fillTag    tag

	pending     []*ssa.Function // reached, and not in the graph yet
	seen        map[*ssa.Function]bool
	opened      map[*ssa.Function]bool
	scopes      map[*ssa.Function][]*apiType
	readers     map[ssa.Value][]*apiType // what makes a predicate or a handler of a library, by the kinds that it is for
	boxedTypes  typeutil.Map
	methodsOf   typeutil.Map
	invocations []*invocation
	unanswered  []*invocation
	boxed       []types.Type // the types of values that the program puts into interfaces
	dispatched  int          // so many of boxed have been told to the invocations

	libraryID     vid
	libInterfaces map[string][]libraryInterface
	parts         map[string]bool
	modelMemo     map[*types.Func]*model
	insides       [2]typeutil.Map
	insideKeys    map[insideKey]vid

	found map[foundKey]*found
	want  map[*pkg]bool // packages that were given objects, and that could be read from source
}

// A found is a read of a path.
type found struct {
	node *node
	use
	anyType bool // the object came in an interface, so its type is not certain
	at      state
	fn      *ssa.Function
}

type foundKey struct {
	node *node
	pos  int
	text string
	pres bool
}

func (a *analysis) ignored(fn *ssa.Function) bool {
	return a.ignore != nil && a.ignore.MatchString(fn.String())
}

func lookupMethod(t types.Type, name string) types.Object {
	if sel := types.NewMethodSet(t).Lookup(nil, name); sel != nil {
		return sel.Obj()
	}
	return nil
}

type tupleKey struct {
	v ssa.Value
	i int
}

type resultKey struct {
	fn *ssa.Function
	i  int
}

type memoryKey struct {
	key string
	i   int
}

type refinedKey struct {
	v   ssa.Value
	key string
}

// An assertion is a type assertion whose result is looked at: in the blocks below yes the value is
// of the type, in those below no it is not.
type assertion struct {
	typ     types.Type
	yes, no *ssa.BasicBlock
}

// An invocation is a call of a method of an interface.
type invocation struct {
	*site
	iface *types.Interface
	done  map[*ssa.Function]bool
}

type libraryInterface struct {
	typ     *types.Interface
	generic bool
	names   []string
}

type insideKey struct {
	key   string
	depth depth
}

// A site is a call.
type site struct {
	instr ssa.CallInstruction
	call  *ssa.CallCommon
	fn    *ssa.Function
	block *ssa.BasicBlock
	at    token.Pos // where there is no call
	name  string    // of what is called, as people write it
	pkg   *pkg      // of what is called
	args  []ssa.Value
}
