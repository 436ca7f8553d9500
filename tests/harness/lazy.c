/* A disk that flushes nothing: put before the C library with LD_PRELOAD, below an ordinary build of
 * the server. To SQLite it is what `synchronous = OFF` is.
 */
int fsync(int file);
int fdatasync(int file);

int fsync(int file) { return file < 0 ? -1 : 0; }
int fdatasync(int file) { return file < 0 ? -1 : 0; }
