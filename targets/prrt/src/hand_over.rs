//! Ways of a payload from the transport to the application, which X-Lap found to be what most delays and jitters.
//!
//! Guarantees: what was handed over is taken once, in that order, by one thread; of payloads that the application has
//! not taken yet, `most` wait, and a further one is refused, never held up or dropped in silence. Deliberately absent:
//! a ring that may grow, several applications.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::Delivery;

/// Way of a payload to the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandOver {
    /// Its thread sleeps on a condition variable until one is there.
    Condvar,
    /// Its thread looks at a ring of slots again and again, without a pause.
    Spin,
    /// The transport's thread calls it: the next packet waits meanwhile.
    Inline,
}

/// An application, with the state `T` that it leaves.
pub struct Application<T>(Way<T>);

type Take<T> = Box<dyn FnMut(Delivery, &mut T)>;

enum Way<T> {
    Condvar(Arc<Queue>, JoinHandle<io::Result<T>>),
    Spin(mpsc::SyncSender<Delivery>, JoinHandle<io::Result<T>>),
    Inline(Take<T>, T),
}

/// Payloads that wait for a thread that sleeps.
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    most: usize,
}

#[derive(Default)]
struct Waiting {
    deliveries: VecDeque<Delivery>,
    has_ended: bool,
}

impl<T: Default + Send + 'static> Application<T> {
    /// Begins it: `open` makes what takes payloads, on the thread that will.
    pub fn start<A>(
        hand_over: HandOver,
        most: usize,
        open: impl FnOnce() -> io::Result<A> + Send + 'static,
    ) -> io::Result<Self>
    where
        A: FnMut(Delivery, &mut T) + 'static,
    {
        Ok(Self(match hand_over {
            HandOver::Condvar => {
                let queue = Arc::new(Queue { waiting: Mutex::default(), changed: Condvar::new(), most });
                let other = Arc::clone(&queue);
                Way::Condvar(queue, thread::spawn(move || take_all(open, || other.next())))
            }
            HandOver::Spin => {
                let (to, from) = mpsc::sync_channel(most);
                Way::Spin(to, thread::spawn(move || take_all(open, || spin(&from))))
            }
            HandOver::Inline => Way::Inline(Box::new(open()?), T::default()),
        }))
    }

    /// Hands a payload over; answers whether there was room for it.
    #[must_use = "a payload for which there was no room is gone"]
    pub fn hand_over(&mut self, delivery: Delivery) -> bool {
        match &mut self.0 {
            Way::Condvar(queue, _) => queue.put(delivery),
            Way::Spin(ring, _) => ring.try_send(delivery).is_ok(),
            Way::Inline(take, state) => {
                take(delivery, state);
                true
            }
        }
    }

    /// Ends it, once it has taken what was handed over.
    pub fn end(self) -> io::Result<T> {
        let thread = match self.0 {
            Way::Condvar(queue, thread) => {
                queue.end();
                thread
            }
            Way::Spin(ring, thread) => {
                drop(ring);
                thread
            }
            Way::Inline(_, state) => return Ok(state),
        };
        thread.join().map_err(|_| io::Error::other("the application's thread panicked; report it"))?
    }
}

fn take_all<T: Default, A: FnMut(Delivery, &mut T)>(
    open: impl FnOnce() -> io::Result<A>,
    mut next: impl FnMut() -> Option<Delivery>,
) -> io::Result<T> {
    let (mut take, mut state) = (open()?, T::default());
    while let Some(delivery) = next() {
        take(delivery, &mut state);
    }
    Ok(state)
}

fn spin(ring: &mpsc::Receiver<Delivery>) -> Option<Delivery> {
    loop {
        match ring.try_recv() {
            Ok(delivery) => return Some(delivery),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, delivery: Delivery) -> bool {
        let mut waiting = self.waiting();
        let has_room = waiting.deliveries.len() < self.most;
        if has_room {
            waiting.deliveries.push_back(delivery);
        }
        drop(waiting);
        self.changed.notify_one();
        has_room
    }

    fn end(&self) {
        self.waiting().has_ended = true;
        self.changed.notify_one();
    }

    fn next(&self) -> Option<Delivery> {
        let is_idle = |waiting: &mut Waiting| waiting.deliveries.is_empty() && !waiting.has_ended;
        let waiting = self.changed.wait_while(self.waiting(), is_idle);
        waiting.unwrap_or_else(PoisonError::into_inner).deliveries.pop_front()
    }
}
