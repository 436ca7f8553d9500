//! The API on the test bed, request by request.
