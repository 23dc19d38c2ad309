// Package lockedfile reads and changes the small files of the state folder that
// several processes share.
//
// [Lock] makes processes wait for each other, for a bounded time. A [File] is
// private: nobody else may read it. It is read whole, changed under its lock and
// replaced whole. [ReadTrusted] reads a file that people may edit by hand. All of
// them take regular files alone, up to a size: a pipe, a folder or something huge
// in a file's place is an error at once.
package lockedfile
