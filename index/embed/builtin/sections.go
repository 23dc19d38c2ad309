package builtin

// A sectionReader reads sections one after the other and keeps the first
// error; after it, what it returns is of no use.
type sectionReader struct {
	file *modelFile
	err  error
}

func (r *sectionReader) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *sectionReader) int8s(name string, n int) []int8 {
	v, err := r.file.int8s(name, n)
	r.keep(err)
	return v
}

func (r *sectionReader) float32s(name string, n int) []float32 {
	v, err := r.file.float32s(name, n)
	r.keep(err)
	return v
}

func (r *sectionReader) matrix(name string, rows, cols int) matrix {
	return matrix{
		rows:   rows,
		cols:   cols,
		panels: r.int8s(name, rows*cols),
		scale:  r.float32s(name+".scale", cols),
		bias:   r.float32s(name+".bias", cols),
	}
}

func (r *sectionReader) norm(name string, size int) layerNorm {
	return layerNorm{gain: r.float32s(name+".gain", size), bias: r.float32s(name+".bias", size)}
}
