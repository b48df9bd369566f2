package wire

import (
	"net/http"
	"slices"
)

// openAPIv2 is the path of the OpenAPI document of version 2.
const openAPIv2 = "openapi/v2"

// The media types of that document in protobuf: what clients ask for, and what servers answer.
const (
	wantOpenAPIv2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	typeOpenAPIv2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// writeOpenAPIv2 answers with a document that describes no kind. kubectl reads it for a kind that
// those of version 3 do not have: if it is not there either, kubectl asks discovery, and names the
// kind. Without the document it would say that the server lacks something.
func (d *Discovery) writeOpenAPIv2(w http.ResponseWriter, accept string) {
	const title, swagger = "Kubernetes", "2.0"
	for _, c := range parseAccept(accept) {
		if c.converts || !slices.ContainsFunc([]string{wantOpenAPIv2, typeOpenAPIv2}, c.matches) || c.matches(typeJSON) {
			continue
		}
		// A Document has swagger, info and paths, and an Info has a title and a version.
		info := append(appendField(nil, 1, len(title)), title...)
		info = append(appendField(info, 2, len(d.Version.GitVersion)), d.Version.GitVersion...)
		document := append(appendField(nil, 1, len(swagger)), swagger...)
		document = appendField(append(appendField(document, 2, len(info)), info...), 8, 0)
		WriteBody(w, typeOpenAPIv2, http.StatusOK, document)
		return
	}
	f, err := Negotiate(accept, WantStatus, func(f Format) bool { return f == Format{} })
	if err != nil {
		WriteStatus(w, f, Status(err))
		return
	}
	WriteBody(w, f.ContentType(false), http.StatusOK, append(mustJSON(map[string]any{
		"swagger": swagger, "info": map[string]string{"title": title, "version": d.Version.GitVersion}, "paths": map[string]any{},
	}), '\n'))
}
