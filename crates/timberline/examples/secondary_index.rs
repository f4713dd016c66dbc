//! A secondary index: users by their number, and the numbers of users by city.
//!
//! The key of the index is a tuple, so users of one city lie side by side, and a range finds them.

use timberline::{Art, BTree, Error};

const USERS: [(u64, &str, &str); 5] = [
    (17, "Ada", "London"),
    (23, "Blaise", "Paris"),
    (42, "Grace", "New York"),
    (58, "Évariste", "Paris"),
    (61, "Alan", "London"),
];

/// Users and their cities.
#[derive(Default)]
pub struct Users {
    names: BTree<u64, String>,
    by_city: Art<(String, u64), u64>,
}

impl Users {
    /// Adds a user to both maps.
    pub fn add(&self, id: u64, name: &str, city: &str) -> Result<(), Error> {
        self.names.insert(&id, name)?;
        self.by_city.insert(&(city.into(), id), id)?;
        Ok(())
    }

    /// The names of the users of a city, in order of their numbers.
    pub fn of_city(&self, city: &str) -> Vec<String> {
        let all = (city.to_string(), 0)..=(city.to_string(), u64::MAX);
        let ids = self.by_city.range(all).map(|(_, id)| id);
        ids.filter_map(|id| self.names.get(&id)).collect()
    }

    /// Takes a user from one city to another.
    pub fn move_to(&self, id: u64, from: &str, to: &str) -> Result<(), Error> {
        self.by_city.insert(&(to.into(), id), id)?;
        self.by_city.remove(&(from.into(), id));
        Ok(())
    }
}

/// Prints the users of each city, before and after a move.
pub fn main() -> Result<(), Error> {
    let users = Users::default();
    for (id, name, city) in USERS {
        users.add(id, name, city)?;
    }
    println!("Paris: {}", users.of_city("Paris").join(", "));
    users.move_to(61, "London", "Paris")?;
    println!("Paris: {}", users.of_city("Paris").join(", "));
    println!("London: {}", users.of_city("London").join(", "));
    Ok(())
}
