package wire

import "strings"

// openAPIRoot is the path of the OpenAPI documents: one that names those of all groups and
// versions, and one for each of them below it.
const openAPIRoot = "openapi/v3"

// openAPI returns the document at a path without the slashes around it, or nil if there is none.
//
// The documents describe the kinds, for kubectl explain, and name the operation patch of each, of
// which kubectl wants to know which formats it takes, and that writes may have the parameters
// fieldValidation and dryRun. A collection that clients only read has it, too, and answers it with
// 405.
func (d *Discovery) openAPI(path string, resources discovered) any {
	rest, ok := strings.CutPrefix(path, openAPIRoot)
	if !ok || d.Version == nil {
		return nil
	}
	paths, schemas := map[string]any{}, map[string]any{}
	for _, r := range resources {
		if r.Schema == nil {
			continue
		}
		apiVersion := r.apiVersion()
		groupVersion := "/apis/" + apiVersion
		if r.Group == "" {
			groupVersion = "/api/" + apiVersion
		}
		switch rest {
		case "":
			paths[groupVersion[1:]] = map[string]string{"serverRelativeURL": "/" + openAPIRoot + groupVersion}
		case groupVersion:
			schemas[apiVersion+"."+r.Kind] = r.described()
			namespace := "/namespaces/{namespace}"
			if !r.Namespaced {
				namespace = ""
			}
			paths[groupVersion+namespace+"/"+r.Name+"/{name}"] = map[string]any{"patch": r.patch()}
		}
	}
	if rest != "" && len(paths) == 0 {
		return nil
	}
	return map[string]any{
		"openapi": "3.0.0",
		"info":    map[string]string{"title": "Kubernetes", "version": d.Version.GitVersion},
		"paths":   paths, "components": map[string]any{"schemas": schemas},
	}
}

// described returns the schema of the resource's objects, which says whose it is.
func (r *Resource) described() map[string]any {
	out := r.Schema()
	out["x-kubernetes-group-version-kind"] = []any{r.groupVersionKind()}
	return out
}

func (r *Resource) groupVersionKind() map[string]string {
	return map[string]string{"group": r.Group, "version": r.Version, "kind": r.Kind}
}

// patch returns the operation that patches an object of the resource.
func (r *Resource) patch() map[string]any {
	bodies := map[string]any{}
	for _, t := range r.Patches {
		bodies[t] = map[string]any{"schema": map[string]string{"type": "object"}}
	}
	var parameters []any
	for _, name := range []string{"dryRun", "fieldManager", "fieldValidation", "force"} {
		parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": map[string]string{"type": "string"}})
	}
	return map[string]any{
		"x-kubernetes-group-version-kind": r.groupVersionKind(), "parameters": parameters,
		"requestBody": map[string]any{"content": bodies},
		"responses":   map[string]any{"200": map[string]string{"description": "OK"}},
	}
}
