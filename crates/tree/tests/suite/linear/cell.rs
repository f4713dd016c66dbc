//! One key of a map, for the checker: a place that holds a value or none.

use stateright::semantics::SequentialSpec;

/// What is there.
#[derive(Clone, Debug)]
pub struct Cell(pub Option<u64>);

/// What is asked of one key.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Op {
    Get,
    Insert(u64),
    Update(u64),
    /// Of a value or none for another or none.
    Exchange(Option<u64>, Option<u64>),
    Remove,
}

/// What the map answers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Answer {
    /// What is there, or was there before.
    Was(Option<u64>),
    Exchanged(Result<Option<u64>, Option<u64>>),
}

impl SequentialSpec for Cell {
    type Op = Op;
    type Ret = Answer;

    fn invoke(&mut self, op: &Op) -> Answer {
        let was = self.0;
        match *op {
            Op::Get => {}
            Op::Insert(value) => self.0 = Some(value),
            Op::Update(value) => self.0 = was.map(|_| value),
            Op::Remove => self.0 = None,
            Op::Exchange(current, new) => {
                if was != current {
                    return Answer::Exchanged(Err(was));
                }
                self.0 = new;
                return Answer::Exchanged(Ok(was));
            }
        }
        Answer::Was(was)
    }
}
