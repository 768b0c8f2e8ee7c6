//! What only a file can do.

use std::os::unix::fs::PermissionsExt;

use super::fixtures::{Place, living};

#[tokio::test]
async fn the_lock_file_of_an_incarnation_is_private_and_goes_with_an_orderly_end() {
    let place = Place::sqlite().await;
    let id = living(&*place.store).await;
    let path = place.path().with_file_name(format!("redrive.db.incarnation-{id}"));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    place.store.incarnation_end(id).await.unwrap();
    assert!(!path.exists());
    place.end().await;
}
