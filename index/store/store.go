package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/metamcp/metamcp/integration/diskspace"
)

const (
	// memtableSize is how much badger collects in memory before it makes a table
	// of it. All of it is taken at once.
	memtableSize = 2 << 20
	// largestMemtable is for logs that need more; earlier versions wrote them.
	largestMemtable = 8 << 20
	// largestRecord is more than a vector of MaxDimension takes. Badger writes no
	// more than 15 % of a memtable at once.
	largestRecord = 4*MaxDimension + 32<<10
	// defaultReserve covers what badger may write after a write was accepted: two
	// memtables, and a compaction of them into the level below.
	defaultReserve = 48 << 20
	// closeLimit is how long Close waits for badger.
	closeLimit = 10 * time.Second
)

// Options of a store. The zero value is fine.
type Options struct {
	// Log is told what a person may want to know: warnings and errors of
	// badger, and what became of a damaged store. level is "info", "warn" or
	// "error". It is called from goroutines of badger's, also concurrently,
	// must not call the store, and may be nil.
	Log func(level, msg string)
	// Reserve is how many bytes of the disk must stay free for a write to be
	// begun; 0 means 48 MiB. With less room, badger may end the process.
	Reserve int64
	// Now is the clock for times of use; nil means time.Now.
	Now func() time.Time
}

// A Store is an open store. Reading methods (Listings, Vectors, Stats, Export)
// may be called from any goroutine, also while one writes. Methods that write
// wait for each other.
type Store struct {
	path    string
	options Options
	folder  *folder
	data    string           // badger's folder
	info    fs.FileInfo      // of data, to notice when it is deleted or replaced
	mapped  map[string]int64 // sizes of badger's mapped files; guarded by writer
	rebuilt string
	// unsettled: it was told that tables could not be merged; guarded by writer.
	unsettled bool

	life   sync.RWMutex // held for writing by Close
	closed bool
	db     *badger.DB
	writer sync.Mutex            // held by who writes
	broken atomic.Pointer[error] // why nothing can be written any more

	mu      sync.Mutex // guards what follows
	models  map[string]*model
	faulty  map[string]struct{} // keys of damaged records, to be deleted
	damaged int64
}

// maxFaulty bounds the keys that are remembered for deletion.
const maxFaulty = 1 << 16

// Open opens the store in the folder path, and makes it where there is none.
// Only one process at a time can hold it.
//
// A store that is damaged is emptied, and Rebuilt says why. The error is an
// *Error that wraps ErrLocked, ErrNewer, ErrForeign, ErrPermission, ErrReadOnly,
// ErrDiskFull, or something else of the system; then nothing was deleted, and
// the caller does without a store.
func Open(path string, o Options) (*Store, error) { return open(path, o, current) }

func open(path string, o Options, schema schema) (*Store, error) {
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reserve == 0 {
		o.Reserve = defaultReserve
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fail("open", path, err)
	}
	f, err := takeFolder(path, schema.version)
	if err != nil {
		return nil, fail("open", path, err)
	}
	s := &Store{path: path, options: o, folder: f, rebuilt: f.lost, mapped: map[string]int64{}, models: map[string]*model{}, faulty: map[string]struct{}{}}
	if err := s.start(schema); err != nil {
		f.release()
		return nil, fail("open", path, err)
	}
	return s, nil
}

// start opens the database, or a new one in place of one that cannot be opened.
func (s *Store) start(schema schema) error {
	if err := s.room(0); err != nil {
		return err
	}
	deaths, err := s.folder.opening()
	if err != nil {
		return err
	}
	defer s.folder.opened()
	current, next, err := s.folder.data()
	if err != nil {
		return err
	}
	if current != "" {
		if deaths < maxDeaths {
			err = s.startIn(current, schema)
		} else {
			err = damaged("the last %d attempts to open it ended the process", deaths)
		}
		if err == nil || errors.Is(err, ErrNewer) || ofSystem(err) {
			return err
		}
		s.rebuilt = err.Error()
		s.options.Log("warn", "the index store was rebuilt: "+s.rebuilt)
		// A new name keeps away goroutines that badger may have left behind.
		if err := os.RemoveAll(current); err != nil {
			return err
		}
	}
	return s.startIn(next, schema)
}

// startIn opens the database in one folder.
func (s *Store) startIn(data string, schema schema) (err error) {
	if err := os.Mkdir(data, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := verify(data, s.options.Log); err != nil {
		return err
	}
	memtable, err := memtableFor(data)
	if err != nil {
		return err
	}
	if err := guarded(func() (err error) {
		s.db, err = badger.Open(badgerOptions(data, memtable, s.options.Log))
		return err
	}); err != nil {
		return err
	}
	s.data = data
	if s.info, err = os.Stat(data); err == nil {
		err = s.migrate(schema)
	}
	if err == nil {
		err = s.intact()
	}
	if err == nil {
		err = s.loadModels()
	}
	if err != nil {
		if closeErr := closeWithin(s.db, closeLimit); closeErr != nil {
			err = fmt.Errorf("%w (and it could not be closed: %w)", err, closeErr)
		}
		s.db = nil
	}
	return err
}

func badgerOptions(path string, memtable int64, log func(level, msg string)) badger.Options {
	return badger.DefaultOptions(path).
		WithLogger(logger{log}).
		WithMemTableSize(memtable).WithNumMemtables(2).
		// Badger's compactors look for work every 50 ms for as long as they live;
		// here settle does it, and no write waits for them.
		WithNumCompactors(0).WithNumLevelZeroTables(2).WithNumLevelZeroTablesStall(math.MaxInt).
		// While a table is made, twice its size is taken at once.
		WithBaseTableSize(memtableSize / 2).
		// Without compression there need not be a cache.
		WithCompression(options.None).WithBlockCacheSize(0).
		WithChecksumVerificationMode(options.OnBlockRead).
		// No value goes there: a record is smaller.
		WithValueThreshold(largestRecord).
		WithValueLogFileSize(1 << 20).
		WithMetricsEnabled(false).WithDetectConflicts(false).
		// This package has a lock of its own, which it holds before badger
		// looks at the files and while it replaces them.
		WithBypassLockGuard(true).
		WithExternalMagic(ourMagic)
}

// memtableFor returns the size of memtables with which the logs in a folder can be
// read: badger ends the process when one does not fit. What a record takes in
// memory is less than twice what it takes in the log.
func memtableFor(data string) (int64, error) {
	logs, err := filesIn(data, ".mem")
	if err != nil {
		return 0, err
	}
	for _, name := range logs {
		if info, err := os.Stat(name); err != nil || info.Size() > memtableSize/2 {
			return largestMemtable, err
		}
	}
	return memtableSize, nil
}

// logger passes on what badger warns of.
type logger struct{ log func(level, msg string) }

func (l logger) Errorf(f string, args ...any)   { l.log("error", "badger: "+fmt.Sprintf(f, args...)) }
func (l logger) Warningf(f string, args ...any) { l.log("warn", "badger: "+fmt.Sprintf(f, args...)) }
func (logger) Infof(string, ...any)             {}
func (logger) Debugf(string, ...any)            {}

// Rebuilt says why the store was emptied when it was opened; "" when it was not.
func (s *Store) Rebuilt() string { return s.rebuilt }

// room says ErrDiskFull unless size bytes can be written safely.
func (s *Store) room(size int64) error {
	free, err := diskspace.Free(s.path)
	if err != nil {
		return err
	}
	// What is written goes to the log, to a table, and through compactions.
	if need := s.options.Reserve + 3*size; free < need {
		return fmt.Errorf("%w: %d MiB are free, and %d MiB must be", ErrDiskFull, free>>20, (need+1<<20-1)>>20)
	}
	return nil
}

// read runs fn in a transaction that sees one moment of the store.
func (s *Store) read(op string, fn func(g *guard, txn *badger.Txn) error) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return fail(op, s.path, ErrClosed)
	}
	g := new(guard)
	err := g.run(func() error {
		return s.db.View(func(txn *badger.Txn) error { return fn(g, txn) })
	})
	if p := (*panicked)(nil); errors.As(err, &p) {
		err = s.breaks(err)
	}
	return fail(op, s.path, err)
}

// breaks lets nothing be written any more because of err: badger may have no
// memtable after an error, or files that are shorter than what it mapped, and
// would end the process at the next write.
func (s *Store) breaks(err error) error {
	why := fmt.Errorf("%w: %w", ErrBroken, err)
	s.broken.CompareAndSwap(nil, &why)
	return why
}

// A batch is what one write sets and deletes.
type batch struct {
	*badger.WriteBatch
}

// write runs fn, which fills a batch of about size bytes, and returns nil when
// the batch is on disk. The damaged records that were met since the last write
// are deleted before.
func (s *Store) write(op string, size int64, fn func(b batch) error) error {
	s.writer.Lock()
	defer s.writer.Unlock()
	s.life.RLock()
	defer s.life.RUnlock()
	return fail(op, s.path, s.writeHeld(size, fn))
}

func (s *Store) writeHeld(size int64, fn func(b batch) error) error {
	if s.closed {
		return ErrClosed
	}
	if why := s.broken.Load(); why != nil {
		return *why
	}
	if err := s.intact(); err != nil {
		return err
	}
	if err := s.room(size); err != nil {
		return err
	}
	faulty := s.takeFaulty()
	err := guarded(func() error {
		wb := s.db.NewWriteBatch()
		defer wb.Cancel()
		wb.SetMaxPendingTxns(4)
		for _, key := range faulty {
			if err := wb.Delete([]byte(key)); err != nil {
				return err
			}
		}
		if err := fn(batch{wb}); err != nil {
			return err
		}
		if err := wb.Flush(); err != nil {
			return err
		}
		return s.sync()
	})
	if err != nil {
		return s.breaks(err)
	}
	s.settle()
	return nil
}

// sync makes what was written survive the loss of power. Badger syncs the log of
// the newest memtable only; those before it may still wait to be made a table.
func (s *Store) sync() error {
	if err := s.db.Sync(); err != nil {
		return err
	}
	logs, err := filesIn(s.data, ".mem")
	if err != nil || len(logs) < 2 {
		return err
	}
	for _, name := range logs {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // made a table in the meantime, which badger syncs
		}
		if err != nil {
			return err
		}
		err = f.Sync()
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// fault remembers a damaged record, which the next write deletes.
func (s *Store) fault(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.faulty[string(key)]; known {
		return
	}
	s.damaged++
	if len(s.faulty) < maxFaulty {
		s.faulty[string(key)] = struct{}{}
	}
}

func (s *Store) takeFaulty() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, 0, len(s.faulty))
	for key := range s.faulty {
		keys = append(keys, key)
	}
	clear(s.faulty)
	return keys
}
