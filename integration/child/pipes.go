package child

import "os"

// pipes are the three pipes of one child, both ends of each.
type pipes struct {
	in, childIn   *os.File
	out, childOut *os.File
	err, childErr *os.File
}

// openPipes makes the pipes. Our ends never block a thread where the platform
// has that; the child's ends are ordinary blocking ones, since few programs
// expect anything else of their standard streams.
func openPipes() (*pipes, error) {
	p := new(pipes)
	var err error
	if p.childIn, p.in, err = pipe(false); err == nil {
		if p.out, p.childOut, err = pipe(true); err == nil {
			p.err, p.childErr, err = pipe(true)
		}
	}
	if err != nil {
		p.closeAll()
		return nil, err
	}
	return p, nil
}

func (p *pipes) closeChild() { closeFiles(p.childIn, p.childOut, p.childErr) }
func (p *pipes) closeOurs()  { closeFiles(p.in, p.out, p.err) }
func (p *pipes) closeAll()   { p.closeChild(); p.closeOurs() }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
