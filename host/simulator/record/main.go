// Tells how Go writes the built-in kinds: which fields it leaves out when they are empty, and what it writes when nobody said
// anything. OpenAPI does not carry this, and a real API server decodes and encodes every object through these types.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// structure is one Go type. Names are those of JSON.
type structure struct {
	// Omitted are the fields that are left out when they are empty; pointers are not among them, a pointer to zero is written.
	Omitted []string `json:"omitted,omitempty"`
	// Written maps the fields that are always written to what is written when they are empty.
	Written map[string]any `json:"written,omitempty"`
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func main() {
	types := runtime.NewScheme()
	must(scheme.AddToScheme(types))
	must(apiextensions.AddToScheme(types))
	must(apiregistration.AddToScheme(types))
	structures := map[string]*structure{}
	for kind, t := range types.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal {
			walk(t, structures)
		}
	}
	must(json.NewEncoder(os.Stdout).Encode(structures))
}

func walk(t reflect.Type, structures map[string]*structure) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		walk(t.Elem(), structures)
		return
	case reflect.Struct:
	default:
		return
	}
	name := definition(t)
	if _, known := structures[name]; known || writesItself(t) {
		return
	}
	s := &structure{Written: map[string]any{}}
	structures[name] = s
	fields(t, s, structures)
}

func fields(t reflect.Type, s *structure, structures map[string]*structure) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		options := tag[1:]
		if field.Anonymous && tag[0] == "" {
			fields(field.Type, s, structures)
			continue
		}
		if tag[0] == "-" || tag[0] == "" || !field.IsExported() {
			continue
		}
		walk(field.Type, structures)
		omit := has(options, "omitzero") || has(options, "omitempty")
		switch kind := field.Type.Kind(); {
		case kind == reflect.Pointer && omit:
		case kind == reflect.Struct && !has(options, "omitzero"):
			// omitempty does nothing to a structure.
			s.Written[tag[0]] = zero(field.Type)
		case omit:
			s.Omitted = append(s.Omitted, tag[0])
		default:
			s.Written[tag[0]] = zero(field.Type)
		}
	}
}

// zero is what JSON has for an empty value.
func zero(t reflect.Type) any {
	encoded, err := json.Marshal(reflect.Zero(t).Interface())
	must(err)
	var value any
	must(json.Unmarshal(encoded, &value))
	if m, ok := value.(map[string]any); ok && !writesItself(t) {
		// What is inside is told by the inner type.
		clear(m)
	}
	return value
}

func writesItself(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// definition is the type's name in OpenAPI.
func definition(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	domain := strings.Split(parts[0], ".")
	for i, j := 0, len(domain)-1; i < j; i, j = i+1, j-1 {
		domain[i], domain[j] = domain[j], domain[i]
	}
	return strings.Join(append(append(domain, parts[1:]...), t.Name()), ".")
}

func has(options []string, wanted string) bool {
	for _, option := range options {
		if option == wanted {
			return true
		}
	}
	return false
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
