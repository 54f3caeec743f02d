package manifest

// ObjectKey identifies an object of the input. Two objects with the same key are the same object in a
// cluster, if the namespace of neither is defined elsewhere.
type ObjectKey struct {
	Kind string
	// Namespace is the namespace in the manifest. It is empty if the manifest has none.
	Namespace string
	Name      string
}

// ObjectSet is a set of objects. Its zero value is not ready, see [NewObjectSet].
type ObjectSet map[ObjectKey]bool

// NewObjectSet returns the objects of all documents. It decodes each document once.
func NewObjectSet(docs []*Document) ObjectSet {
	set := ObjectSet{}
	for _, d := range docs {
		for _, o := range d.Objects() {
			set[ObjectKey{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}] = true
		}
	}
	return set
}

// Add adds an object and reports whether the set did not contain it.
func (s ObjectSet) Add(key ObjectKey) bool {
	if s[key] {
		return false
	}
	s[key] = true
	return true
}
