/* A disk that ignores flushes, injected into an ordinary build of the server with LD_PRELOAD. The
 * effect on SQLite is that of `synchronous = OFF`.
 */
int fsync(int file);
int fdatasync(int file);

int fsync(int file) { return file < 0 ? -1 : 0; }
int fdatasync(int file) { return file < 0 ? -1 : 0; }
