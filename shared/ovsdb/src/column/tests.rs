use super::*;

type Flat = LiteMap<String, i64>;
type Tree = BTreeMap<String, i64>;

fn numbers(count: i64) -> Datum {
    Datum::map((0..count).map(|number| (format!("key-{number}"), number)))
}

#[test]
fn both_kinds_of_map_read_and_write_the_same() {
    assert_eq!(Flat::SHAPE, Tree::SHAPE);
    for datum in [numbers(0), numbers(1), numbers(30)] {
        let (flat, tree) = (Flat::from_datum(&datum).unwrap(), Tree::from_datum(&datum).unwrap());
        assert!(flat.iter().eq(tree.iter()), "{flat:?}");
        assert_eq!((flat.to_datum(), tree.to_datum()), (datum.clone(), datum));
    }
    for wrong in [Datum::scalar(1i64), Datum::map([("key", "text")])] {
        assert_eq!(Flat::from_datum(&wrong), Err(ShapeError::new(&wrong)));
        assert_eq!(Tree::from_datum(&wrong), Err(ShapeError::new(&wrong)));
    }
}

#[test]
fn a_flat_map_that_was_read_takes_the_room_of_its_pairs() {
    let read = Flat::from_datum(&numbers(5)).unwrap().into_tuple_vec();
    assert_eq!((read.len(), read.capacity()), (5, 5));
}
