package wire

import (
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Columns returns the columns of a table: the name, what is between, and the age.
func Columns(between ...metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	doc := metav1.ObjectMeta{}.SwaggerDoc()
	name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: doc["name"]}
	age := metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: doc["creationTimestamp"]}
	return append(append([]metav1.TableColumnDefinition{name}, between...), age)
}

// TableRow returns the row of the object whose JSON, or that of its metadata alone, is named. The
// cells between the name and the age are given. object is what the row has beside the cells.
func TableRow(named, object []byte, between []any, now time.Time) ([]byte, error) {
	var o metav1.PartialObjectMetadata
	age := "<unknown>"
	if json.Unmarshal(named, &o) == nil && !o.CreationTimestamp.IsZero() {
		age = duration.HumanDuration(now.Sub(o.CreationTimestamp.Time))
	}
	return TableCells(append(append([]any{o.Name}, between...), age), object)
}

// TableCells returns a row of all cells, and what it has beside them.
func TableCells(cells []any, object []byte) ([]byte, error) {
	row, err := json.Marshal(struct {
		Cells []any `json:"cells"`
	}{cells})
	if err != nil {
		return nil, err
	}
	row = append(append(row[:len(row)-1], `,"object":`...), object...)
	return append(row, '}'), nil
}

// IncludeObject reads the parameter includeObject of a request for a table: what its rows have
// beside the cells.
func IncludeObject(value string) (metav1.IncludeObjectPolicy, error) {
	switch p := metav1.IncludeObjectPolicy(value); p {
	case "":
		return metav1.IncludeMetadata, nil
	case metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject:
		return p, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: includeObject: Invalid value: %q: "+
		"must be 'Metadata', 'Object', 'None', or empty", value))
}
