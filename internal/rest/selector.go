package rest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// CheckSelectors parses a label selector and a field selector as a server does. An empty one is
// valid. The error names the selector that is not.
func CheckSelectors(label, field string) error {
	if label != "" {
		if _, err := labels.Parse(label); err != nil {
			return fmt.Errorf("label selector %q: %w", label, err)
		}
	}
	if field != "" {
		if _, err := fields.ParseSelector(field); err != nil {
			return fmt.Errorf("field selector %q: %w", field, err)
		}
	}
	return nil
}
