package clientgo

import (
	"fmt"
	"go/ast"
	"go/token"
)

// hookConstructor lets NewSharedIndexInformerWithOptions, in the text of client-go's
// shared_informer.go, ask NewSharedIndexInformerHook of testdata/cache/hook.go first.
func hookConstructor(src string) (string, error) {
	p, err := newPatch("shared_informer.go", src)
	if err != nil {
		return "", err
	}
	f, err := p.function("NewSharedIndexInformerWithOptions")
	if err != nil {
		return "", err
	}
	var args string
	for _, param := range f.Type.Params.List {
		for _, name := range param.Names {
			args += name.Name + ", "
		}
	}
	p.insert(f.Body.Lbrace+1, fmt.Sprintf(
		" if hook := NewSharedIndexInformerHook; hook != nil { if inf := hook(%s); inf != nil { return inf } };", args))
	return p.apply()
}

// hookReflector lets Reflector.RunWithContext, in the text of client-go's reflector.go, ask
// RunReflectorHook of testdata/cache/hook.go first.
func hookReflector(src string) (string, error) {
	p, err := newPatch("reflector.go", src)
	if err != nil {
		return "", err
	}
	for _, decl := range p.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv != nil && f.Name.Name == "RunWithContext" && p.text(f.Recv.List[0].Type) == "*Reflector" {
			p.insert(f.Body.Lbrace+1, " if r.ranByHook(ctx) { return };")
		}
	}
	return p.apply()
}

// rewriteInformerTests changes the text of client-go's shared_informer_test.go so that it compiles
// and passes with any informer, together with testdata/cache/rewritten_test.go:
//
//   - the helpers that look into *sharedIndexInformer are left out, since that file has others,
//   - NewSharedInformer(...), with or without an assertion of that type, is newHandled(...),
//   - in TestSharedInformerWatchDisruption, which that file calls in a bubble, a bubbleClock stands
//     for the FakeClock, and listeners are emptied under their lock.
//
// The functions of keep are not changed.
func rewriteInformerTests(src string, keep map[string]string) (string, error) {
	p, err := newPatch("shared_informer_test.go", src)
	if err != nil {
		return "", err
	}
	for _, helper := range []string{"eventHandlerCount", "isStarted", "isRegistered"} {
		f, err := p.function(helper)
		if err != nil {
			return "", err
		}
		p.replaceNode(f, "")
	}
	for name := range keep {
		if _, err := p.function(name); err != nil {
			return "", err
		}
	}
	for _, decl := range p.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || keep[f.Name.Name] != "" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				if call, ok := n.X.(*ast.CallExpr); ok && p.calls(call, "NewSharedInformer") {
					p.replace(call.End(), n.End(), "")
				}
			case *ast.CallExpr:
				if p.calls(n, "NewSharedInformer") {
					p.replaceNode(n.Fun, "newHandled")
				}
			}
			return true
		})
	}
	if err := p.useBubble("TestSharedInformerWatchDisruption"); err != nil {
		return "", err
	}
	return p.apply()
}

// useBubble renames the test so that it begins with a small letter, makes its clock a bubbleClock
// and leaves out the assignments of that clock to fields. A FakeClock has a lock, which orders what
// the test writes before it steps and what the informer does after. A bubble's clock has none, so
// the listeners are emptied by reset, which takes theirs.
func (p *patch) useBubble(test string) error {
	f, err := p.function(test)
	if err != nil {
		return err
	}
	p.replaceNode(f.Name, "s"+test[len("TestS"):])
	resets := 0
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok && p.text(assign) == "listener.receivedItemNames = []string{}" {
			p.replaceNode(assign, "listener.reset()")
			resets++
		}
		return true
	})
	clocks, fields := 0, 0
	for _, stmt := range f.Body.List {
		assign, ok := stmt.(*ast.AssignStmt)
		if !ok {
			continue
		}
		switch call, _ := assign.Rhs[0].(*ast.CallExpr); {
		case call != nil && p.calls(call, "testingclock.NewFakeClock"):
			p.replaceNode(call, "newBubbleClock(informer)")
			clocks++
		case assign.Tok == token.ASSIGN && p.text(assign.Rhs[0]) == "clock":
			p.replaceNode(assign, "")
			fields++
		}
	}
	if clocks != 1 || fields == 0 || resets != 1 {
		return fmt.Errorf("upstream: %s has %d clocks, gives them to %d fields, and empties listeners in %d places", test,
			clocks, fields, resets)
	}
	return nil
}

// rewriteTypedTests changes the text of client-go's typed_test.go: newPodIndexer stands for
// NewIndexer, so that the typed views are tested on the store of an informer.
func rewriteTypedTests(src string) (string, error) {
	p, err := newPatch("typed_test.go", src)
	if err != nil {
		return "", err
	}
	ast.Inspect(p.file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && p.calls(call, "NewIndexer") {
			p.replaceNode(call.Fun, "newPodIndexer")
		}
		return true
	})
	return p.apply()
}

// calls reports whether call calls the function of that name, as the file writes it.
func (p *patch) calls(call *ast.CallExpr, name string) bool { return p.text(call.Fun) == name }
