//! Ids of elements after the record is lost that says which were used.

mod client;

use client::{Folder, Running};
use timberline_io::Disk;
use timberline_store::{Store, join};

#[test]
fn no_id_is_used_again_where_the_record_of_ids_is_lost() {
    let folder = Folder::new();
    let fill = |server: &Running, key: &str| {
        let mut client = server.client();
        for number in 0..200 {
            let line = format!(
                "HSET h{key} {key}{number} x\r\nRPUSH l{key} {:y>100}\r\n",
                number
            );
            client.send(line.as_bytes());
            assert_eq!(client.reply(), b":1\r\n");
            client.reply();
        }
    };
    let server = Running::new(&folder);
    fill(&server, "one");
    server.stop();
    let (disk, mut driver) = Disk::open(4);
    driver.block_on(async {
        let path = folder.0.join("store");
        let options = Store::options_of(&disk, &path).unwrap().unwrap();
        let (store, _) = Store::open_on(&disk, &path, options).await.unwrap();
        let work = async {
            assert!(store.delete(b"i").await.unwrap());
            store.close();
        };
        join(work, store.maintain()).await.1.unwrap();
    });
    let server = Running::new(&folder);
    fill(&server, "two");
    let mut client = server.client();
    for key in ["two", "one"] {
        assert_eq!(client.says(&format!("HLEN h{key}")), ":200\r\n");
        assert_eq!(client.says(&format!("HGET h{key} {key}7")), "$1\r\nx\r\n");
        let seventh = format!("{:y>100}", 7);
        let said = client.says(&format!("LINDEX l{key} 7"));
        assert_eq!(said, format!("$100\r\n{seventh}\r\n"));
        // Those of the other one stay.
        assert_eq!(client.says(&format!("DEL h{key} l{key}")), ":2\r\n");
    }
    drop(client);
    server.stop();
}
